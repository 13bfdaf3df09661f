"""The writer: a process of its own that puts snapshots on the disk, whatever becomes of training.

`link.py` is the trainer's end, `__main__.py` the writer's; between them are messages and slots.
"""
