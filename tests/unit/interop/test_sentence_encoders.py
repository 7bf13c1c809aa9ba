"""How folders of sentence encoders say that vectors become one."""

import json

import pytest

from regard.core.errors import CheckpointError
from regard.interop.bert import check_pooling, max_tokens

STEPS = ["Transformer", "Pooling", "Normalize"]


def pooling(folder, **said):
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(said))


def steps(folder, *kinds):
    listed = [{"idx": i, "type": f"sentence_transformers.models.{x}"} for i, x in enumerate(kinds)]
    (folder / "modules.json").write_text(json.dumps(listed))


def test_a_folder_that_says_nothing_or_means_is_taken(tmp_path):
    check_pooling(tmp_path)
    steps(tmp_path, *STEPS)
    pooling(tmp_path, word_embedding_dimension=4)
    check_pooling(tmp_path)
    pooling(tmp_path, pooling_mode_mean_tokens=True, pooling_mode_cls_token=False)
    check_pooling(tmp_path)
    pooling(tmp_path, pooling_mode="mean")
    check_pooling(tmp_path)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls_token=true"),
        ({"pooling_mode_max_tokens": True, "pooling_mode_mean_tokens": True}, "max_tokens=true"),
        ({"pooling_mode_mean_tokens": False}, "mean_tokens=false"),
        ({"pooling_mode": "cls"}, "pooling_mode='cls'"),
    ],
)
def test_another_way_to_one_vector_is_refused(tmp_path, said, words):
    pooling(tmp_path, **said)
    with pytest.raises(
        CheckpointError, match=rf"no counterpart of: \S*{words} \(supported: the me"
    ):
        check_pooling(tmp_path)


def test_a_step_behind_the_mean_is_refused(tmp_path):
    steps(tmp_path, *STEPS, "Dense")
    with pytest.raises(CheckpointError, match=r"modules\.json has a Dense \(supported"):
        check_pooling(tmp_path)
    (tmp_path / "modules.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"modules\.json must hold a list, and holds dict"):
        check_pooling(tmp_path)
    (tmp_path / "modules.json").write_text("[3]")
    with pytest.raises(CheckpointError, match=r"modules\.json must hold a list of objects"):
        check_pooling(tmp_path)


def test_how_much_of_a_text_is_read_is_told(tmp_path):
    path = tmp_path / "sentence_bert_config.json"
    assert max_tokens(tmp_path) is None
    path.write_text('{"max_seq_length": 128}')
    assert max_tokens(tmp_path) == 128
    path.write_text('{"max_seq_length": null}')
    assert max_tokens(tmp_path) is None
    for said in ("all", 0):
        path.write_text(json.dumps({"max_seq_length": said}))
        with pytest.raises(CheckpointError, match=f"as a number from 1, found {said!r}"):
            max_tokens(tmp_path)
