"""The process that reads calendars, with less time: `python -m` this module."""

from jqmaster.service.calendars import source_child

if __name__ == "__main__":
    source_child.MAX_CPU_S = 0.8
    source_child.main()
