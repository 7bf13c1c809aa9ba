"""Who trains in a folder is asked without waiting, and without keeping anybody from training."""

import fcntl
import os
import threading

from regard.checkpoints.lock import NAME, locked, trainer_of


def test_a_pipe_in_a_strangers_folder_is_no_lock(tmp_path):
    os.mkfifo(tmp_path / NAME)
    assert trainer_of(tmp_path) is None


def test_who_only_asks_keeps_nobody_from_training(tmp_path):
    (tmp_path / NAME).touch()
    with (tmp_path / NAME).open() as asked:
        fcntl.flock(asked, fcntl.LOCK_SH)
        threading.Timer(0.05, fcntl.flock, (asked, fcntl.LOCK_UN)).start()
        with locked(tmp_path):
            assert f"process {os.getpid()} on " in trainer_of(tmp_path)
