"""Tables of samples in files: read, checked and written.

``reading`` makes a :class:`~mpda.cli.tables.reading.Table` of a file, ``blocks`` reads one that is
larger than memory, ``check`` looks for probable mistakes. ``files`` knows the formats, ``columns``
and ``labels`` what a column holds. pandas and pyarrow are imported by the functions that need them.
"""
