"""Every error a user of the toolkit can meet, in one small tree.

RegardError
├── ConfigError      a setting is missing, unknown or impossible
├── ShapeError       tensors do not fit together
├── DataError        a file or a line of text cannot be used
├── CheckpointError  a run folder or its weights cannot be used
├── TrainingError    a training cannot go on
└── WorkerError      a process that works for another ended, or does not answer
"""


class RegardError(Exception):
    """Base class: the command line turns these, and only these, into one tidy line."""


class ConfigError(RegardError, ValueError):
    """A setting is missing, unknown or impossible."""


class ShapeError(RegardError, ValueError):
    """Tensors do not fit together."""


class DataError(RegardError, ValueError):
    """A file or a line of text cannot be used."""


class CheckpointError(RegardError):
    """A run folder or its weights cannot be used."""


class TrainingError(RegardError):
    """A training cannot go on."""


class WorkerError(RegardError):
    """A process that works for another ended, or does not answer."""
