"""Exercises with checks: files with blanks, and what judges the functions that a learner writes.

An exercise is one file (``exercises/``): its statement, the solution, hints, examples, laws and the
mistakes that people make. From the solution comes the file with blanks (``handout.py``). A
learner's file is read by ``submission.py``, run by ``process.py`` in a process of its own
(``child.py``), and judged there by ``judging.py``. A plug-in adds exercises to
``catalogue.EXERCISES``.
"""
