"""Small files that would take much memory or time: none may be unpacked or made room for.

Each is a few megabytes at most and says, or really is, a gigabyte or more.
"""

import gzip
import io
import json
import struct
import zipfile
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from attack_values import VIEWS, model_file
from attacks import members_of, npy, zipped

GIB = 1 << 30
_PIECE = 1 << 24


def deflated_zeros(n_bytes):
    """Raw deflate of zeros: one piece, packed once, again and again."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    first = packer.compress(bytes(_PIECE)) + packer.flush(zlib.Z_FULL_FLUSH)
    return first * (n_bytes // _PIECE) + packer.compress(b"") + packer.flush()


def archive(members, *, overlap=False):
    """A zip of members: name, what comes before the zeros, and how many zeros there are.

    With ``overlap`` all entries of the directory share the contents of the last member.
    """
    file, entries = io.BytesIO(), []
    packed = {}
    for name, begin, zeros in members:
        name = name.encode()
        if zeros not in packed:
            packed[zeros] = deflated_zeros(zeros)
        length = len(begin)
        stored = b"\x00" + struct.pack("<HH", length, length ^ 0xFFFF) + begin
        content = stored + packed[zeros]
        size = length + zeros // _PIECE * _PIECE
        numbers = (20, 0, 8, 0, 0x21, 0, len(content), min(size, 2**32 - 1))
        start = file.tell()
        file.write(struct.pack("<4s5H3I2H", b"PK\3\4", *numbers, len(name), 0) + name + content)
        entries.append((name, numbers, start))
    directory = b""
    for name, numbers, start in entries:
        place = entries[-1][2] if overlap else start
        fixed = struct.pack("<4s6H3I", b"PK\1\2", 20, *numbers)
        directory += fixed + struct.pack("<5H2I", len(name), 0, 0, 0, 0, 0, place) + name
    end = (b"PK\5\6", 0, 0, len(entries), len(entries), len(directory), file.tell(), 0)
    return file.getvalue() + directory + struct.pack("<4s4H2IH", *end)


def _header(n_rows, width=1, dtype="|u1"):
    shape = f"({n_rows}, {width})" if width else f"({n_rows},)"
    return npy(f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}")


def array_archives():
    """By name, .npz files."""
    whole = _header(GIB)
    labels = ("y.npy", _header(4, 0) + bytes(4))
    packed_labels = ("y.npy", _header(0, 0), 0)
    many = [(f"x{i}.npy", b"", _PIECE) for i in range(100)]
    nested = archive([("a.npz", b"", 3 * GIB)])
    samples = (
        "X.npy",
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1), }", bytes(8)),
    )
    return {
        "a member of a gigabyte": archive([("X.npy", whole, GIB), packed_labels]),
        "three gigabytes": archive([("X.npy", _header(3 * GIB), 3 * GIB), packed_labels]),
        "many members": archive([("X.npy", whole, GIB), packed_labels, *many]),
        "members that overlap": archive([*many, ("X.npy", _header(_PIECE), _PIECE)], overlap=True),
        "an archive in an archive": zipped([("X.npy", nested), ("y.npy", nested)]),
        "a shape of 10^15": zipped([("X.npy", _header(10**15, 3, "<f8") + bytes(64)), labels]),
        "a shape of 10^9": zipped([("X.npy", _header(10**9, 3, "<f8") + bytes(64)), labels]),
        "rows without columns": zipped([("X.npy", npy(_no_columns(10**9))), labels]),
        "strings without length": zipped([("X.npy", _header(10**9, 3, "<U0")), labels]),
        "long strings": archive([("y.npy", _header(64, 0, "<U4194304"), GIB)]),
        "labels of 10^12": zipped([samples, ("y.npy", _header(10**12, 0) + bytes(8))]),
        "a gigabyte by bzip2": zipped(
            [("X.npy", whole + bytes(_PIECE)), labels], zipfile.ZIP_BZIP2
        ),
        "a gigabyte by lzma": zipped([("X.npy", whole + bytes(_PIECE)), labels], zipfile.ZIP_LZMA),
    }


def _no_columns(n_rows):
    return f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({n_rows}, 0), }}"


def arrays():
    """By name, .npy files."""
    return {
        "a shape of 10^15": _header(10**15, 3, "<f8") + bytes(64),
        "a shape of 10^9": _header(10**9, 3, "<f8") + bytes(64),
        "rows without columns": npy(_no_columns(10**9)),
        "strings without length": _header(10**12, 1, "|S0"),
        "a header of 4 GiB": b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1) + b"{" * 1000,
        "a header of 64 KiB": npy("-" * 65_000 + "1"),
    }


def texts():
    """By name, tables of text."""
    wide = ",".join(f"c{i}" for i in range(20_000)).encode()
    return {
        "short rows below a wide first line": wide + b"\n" + b"1\n" * 100_000,
        "nothing but commas": b"," * 1_000_000,
        "a hundred thousand columns": b",".join(b"c%d" % i for i in range(100_000)) + b"\n1\n",
        "one long label": b"x,y\n1," + b"a" * 100_000 + b"\n" + b"1,b\n" * 200_000,
        "one long line": b"x,y\n" + b"1" * 5_000_000,
        "one long name": b"x" * 5_000_000 + b",y\n1,2\n",
        "a quote that is never closed": b'x,y\n1,"' + b"a,b\n" * 1_000_000,
    }


def packed_texts():
    """By name, packed tables of text."""

    def often(text, times):
        return gzip.compress(text * (_PIECE // len(text)), 6) * times

    first = gzip.compress(b"x,y\n")
    return {
        "four gigabytes of zeros": gzip.compress(bytes(_PIECE)) * 256,
        "a gigabyte of rows": first + often(b"1,2\n", 64),
        "a gigabyte of columns": often(b"a,", 64),
        "a line of a gigabyte": first + often(b"1", 64),
        "rows of commas": first + often(b",\n", 64),
        **{name: gzip.compress(text) for name, text in texts().items()},
    }


def _written(table, **options):
    file = io.BytesIO()
    pq.write_table(table, file, store_schema=False, **options)
    return file.getvalue()


def _as_arrow(table, compression=None):
    file = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(file, table.schema, options=options) as writer:
        writer.write_table(table)
    return file.getvalue()


def _one_long_word(times=2000, length=1_000_000):
    return pa.DictionaryArray.from_arrays(np.zeros(times, np.int32), ["x" * length])


def parquets():
    """By name, tables of Parquet."""
    zeros = np.zeros(20_000_000)
    flags = np.zeros(40_000_000, dtype=bool)
    return {
        "many zeros": _written(pa.table({"x": zeros}), compression="zstd"),
        "many truth values": _written(pa.table({"x": flags}), compression="zstd"),
        "many missing": _written(pa.table({"x": pa.nulls(40_000_000, pa.int8())})),
        "one long word": _written(
            pa.table({"y": ["x" * 160_000_000]}),
            compression="zstd",
            use_dictionary=False,
            write_statistics=False,
        ),
        "one long word again and again": _written(
            pa.table({"x": np.zeros(2000), "y": _one_long_word()})
        ),
    }


def _shown_often():
    """By name, a long word that every row shows; nothing where pyarrow has no views yet."""
    if pa.string() == VIEWS:
        return {}
    word = pa.array(["x" * 1_000_000], VIEWS)
    again = pa.py_buffer(bytes(word.buffers()[1]) * 100_000)
    views = pa.Array.from_buffers(VIEWS, 100_000, [None, again, word.buffers()[2]])
    table = pa.table({"x": np.zeros(100_000), "y": views})
    return {"one long word again and again": _as_arrow(table)}


def arrows():
    """By name, files of Arrow."""
    zeros = pa.table({"x": np.zeros(20_000_000)})
    places = pa.py_buffer(np.array([0, 2**30, 64], np.int32).tobytes())
    nowhere = pa.Array.from_buffers(pa.string(), 2, [None, places, pa.py_buffer(b"x" * 64)])
    far = pa.DictionaryArray.from_arrays(pa.array([2**30], pa.int32()), ["a"], safe=False)
    return {
        "zeros by zstd": _as_arrow(zeros, "zstd"),
        "zeros by lz4": _as_arrow(zeros, "lz4"),
        "a column of nothing": _as_arrow(pa.table({"x": pa.nulls(10**9)})),
        "bytes of no length": _as_arrow(
            pa.table({"x": pa.Array.from_buffers(pa.binary(0), 10**9, [None, pa.py_buffer(b"")])})
        ),
        "one run": _as_arrow(
            pa.table({"x": pa.RunEndEncodedArray.from_arrays([2**31 - 1], pa.array([1.0]))})
        ),
        **_shown_often(),
        # No bombs, but a reader that believes them looks where there is nothing, and crashes.
        "words that are nowhere": _as_arrow(pa.table({"x": [1.0, 2.0], "y": nowhere})),
        "a class that is nowhere": _as_arrow(pa.table({"x": [1.0], "y": far})),
    }


def models(whole):
    """By name, model files that are made of a valid one."""
    (_, text), _, *kept = members_of(whole)
    said = json.loads(text)

    def with_array(**changes):
        arrays = [{**said["arrays"][0], **changes}, *said["arrays"][1:]]
        return model_file({**said, "arrays": arrays}, kept)

    def with_value(value):
        changed = json.loads(text)
        changed["model"]["estimator"]["fitted"]["a_"] = value
        return model_file(changed, kept)

    words = ["x" * 100_000, *["y"] * 50_000]
    return {
        "a shape of 10^15": with_array(shape=[10**15]),
        "rows without columns": with_array(shape=[10**15, 0]),
        "strides far apart": with_array(strides=[10**12]),
        "strings": with_array(dtype="|S2147483647", shape=[10**9]),
        "a list that becomes an array": with_value({"masked": {"data": words, "mask": None}}),
        "objects of no size": with_value({"objects": {"shape": [0, 10**15], "values": []}}),
        "a header that unpacks": archive([("header.json", b"", GIB)]),
        "a header of lists": model_file(b"[" + b"[]," * 300_000 + b"[]]", kept),
        "many members": model_file(text, [(f"{i}.npy", b"") for i in range(20_000)]),
    }


def images():
    from PIL import Image

    file = io.BytesIO()
    Image.new("1", (20_000, 20_000)).save(file, "PNG", compress_level=1)
    pieces = [("obj1__0.png", file.getvalue())]
    many = [(f"{i}/obj1__0.png", b"") for i in range(21_000)]
    return {"a large picture": zipped(pieces), "many pictures": zipped(many, zipfile.ZIP_STORED)}


def reports():
    deep = '{"format": "mpda results", "version": 1, "made": {}, "x": %s}'
    return {
        "deep lists": (deep % ("[" * 1500 + "]" * 1500)).encode(),
        "deeper lists": (deep % ("[" * 90_000 + "]" * 90_000)).encode(),
        "a long number": (deep.replace("1,", "9" * 4000 + ",") % 1).encode(),
    }
