"""Ways to spoil a file: each takes its bytes and a generator, and gives the bytes of an attack.

``BYTES`` knows nothing of a format. The others take a file apart and put it together again, so
that what is wrong stands behind sizes and checksums that are right.
"""

import gzip
import io
import pickle
import struct
import zipfile
import zlib

import numpy as np

MARK = "MPDA_ATTACKED"


class Payload:
    """What leaves a mark where it is unpickled."""

    def __reduce__(self):
        return exec, (f"import os; os.environ[{MARK!r}] = '1'",)


PICKLE = pickle.dumps(Payload())
NAMES = (
    *("../X.npy", "../../../../tmp/X.npy", "/tmp/X.npy", "C:\\X.npy", "..\\..\\X.npy", "X.npy/"),
    *("X\x00.npy", ".npy", "", "X" * 60_000 + ".npy", "con.npy", "\u202eX.npy", "\x1b[2JX.npy"),
)


def _places(whole, rng, count=2):
    return sorted(int(each) for each in rng.integers(0, len(whole) + 1, size=count))


def truncated(whole, rng):
    return whole[: rng.integers(len(whole))]


def truncated_at_an_end(whole, rng):
    n = int(rng.integers(1, min(64, len(whole))))
    return whole[:n] if rng.random() < 0.3 else whole[:-n] if rng.random() < 0.6 else whole[n:]


def flipped(whole, rng, count=1):
    changed = bytearray(whole)
    for place in rng.integers(0, len(whole), size=count):
        changed[place] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def flipped_often(whole, rng):
    return flipped(whole, rng, int(rng.integers(2, 60)))


def inserted(whole, rng):
    place, _ = _places(whole, rng)
    return whole[:place] + rng.bytes(int(rng.integers(1, 40))) + whole[place:]


def removed(whole, rng):
    start, _ = _places(whole, rng)
    return whole[:start] + whole[start + int(rng.integers(1, 40)) :]


def swapped(whole, rng):
    a, b, c = _places(whole, rng, 3)
    return whole[:a] + whole[b:c] + whole[a:b] + whole[c:]


def zeroed(whole, rng):
    start, end = _places(whole, rng)
    end = min(end, start + 300)
    return whole[:start] + bytes(end - start) + whole[end:]


def repeated(whole, rng):
    start, end = _places(whole, rng)
    return whole[:end] + whole[start:end] * int(rng.integers(1, 3)) + whole[end:]


def extreme_number(whole, rng):
    """Some bytes as the largest, smallest or another odd number: they may be a length."""
    kind, number = [
        *(("<I", 0xFFFFFFFF), ("<I", 0x7FFFFFFF), ("<I", 0x80000000), ("<H", 0xFFFF), ("<I", 0)),
        *(("<Q", 2**63 - 1), ("<Q", 2**63), ("<Q", 2**40), ("<B", 0xFF), ("<Q", 2**64 - 1)),
    ][rng.integers(10)]
    piece = struct.pack(kind, number)
    place = int(rng.integers(max(1, len(whole) - len(piece))))
    return whole[:place] + piece + whole[place + len(piece) :]


def something_else(whole, rng):
    """Another file under this name."""
    boxed = io.BytesIO()
    with zipfile.ZipFile(boxed, "w") as archive:
        archive.writestr("archive/data.pkl", PICKLE)
        archive.writestr("archive/version", "3\n")
    others = (
        *(b"", b"\0", PICKLE, gzip.compress(PICKLE), boxed.getvalue(), b"PK\x05\x06" + bytes(18)),
        *(
            b"\x80\x04\x95" + PICKLE,
            b"#!/bin/sh\ntouch attacked\n",
            rng.bytes(200),
            b"\xff\xfe" * 9,
        ),
        *(b"\x93NUMPY" + rng.bytes(90), b"PAR1PAR1", b"ARROW1\0\0" + bytes(30) + b"ARROW1"),
        *(zlib.compress(PICKLE), b"\x1f\x8b" + rng.bytes(50), b"[" * 100_000, b"\n" * 1000),
    )
    return others[rng.integers(len(others))]


BYTES = {
    each.__name__: each
    for each in (
        *(truncated, truncated_at_an_end, flipped, flipped_often, inserted, removed, swapped),
        *(zeroed, repeated, extreme_number, something_else),
    )
}


# --- Archives -------------------------------------------------------------------------------------


def members_of(whole):
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        return [(name, archive.read(name)) for name in archive.namelist()]


def zipped(members, compression=zipfile.ZIP_DEFLATED):
    """An archive of members, which may have any name, and the same one twice."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in members:
            # Names are cut at a NUL by the library: put in behind its back.
            info = zipfile.ZipInfo("x")
            info.filename, info.compress_type = name, compression
            archive.NameToInfo.pop(name, None)  # or it would warn
            archive.writestr(info, content)
    return file.getvalue()


def one_of(members, rng):
    return int(rng.integers(len(members)))


def doubled_member(whole, rng):
    members = members_of(whole)
    name, content = members[one_of(members, rng)]
    return zipped([*members, (name, flipped(content, rng))])


def renamed_member(whole, rng):
    members = members_of(whole)
    place = one_of(members, rng)
    name = NAMES[rng.integers(len(NAMES))]
    added = (name, members[place][1])
    return zipped([*members, added] if rng.random() < 0.5 else [*members[:place], added])


def other_compression(whole, rng):
    return zipped(members_of(whole), [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA][rng.integers(2)])


def pickle_as_member(whole, rng):
    members = members_of(whole)
    place = one_of(members, rng)
    content = [PICKLE, object_array(None, rng)][rng.integers(2)]
    members[place] = (members[place][0], content)
    return zipped(members)


def spoilt_member(whole, rng):
    """A member that is wrong inside an archive whose checksums are right."""
    members = members_of(whole)
    place = one_of(members, rng)
    name, content = members[place]
    members[place] = (name, any_of(BYTES, rng)(content, rng) if content else b"x")
    return zipped(members, [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED][rng.integers(2)])


def lying_directory(whole, rng):
    """Sizes, checksums, methods, flags and places of the directory changed, each in its field."""
    fields = {"flags": (8, "<H"), "method": (10, "<H"), "crc": (16, "<I"), "packed": (20, "<I")}
    fields |= {"size": (24, "<I"), "extra": (30, "<H"), "start": (42, "<I")}
    starts = [i for i in range(len(whole)) if whole[i : i + 4] == b"PK\x01\x02"]
    place, kind = list(fields.values())[rng.integers(len(fields))]
    odd = (0, 1, 8, 9, 14, 99, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 10**9, len(whole))
    number = int(odd[rng.integers(len(odd))]) & (2 ** (8 * struct.calcsize(kind)) - 1)
    changed = bytearray(whole)
    struct.pack_into(kind, changed, starts[rng.integers(len(starts))] + place, number)
    return bytes(changed)


def any_of(kinds, rng):
    return list(kinds.values())[rng.integers(len(kinds))]


ARCHIVES = {
    each.__name__: each
    for each in (
        *(doubled_member, renamed_member, other_compression, pickle_as_member, spoilt_member),
        lying_directory,
    )
}


# --- Arrays ---------------------------------------------------------------------------------------


def npy(header, content=b"", version=1):
    """A .npy file whose header is this text."""
    text = header.encode("latin-1", "replace") + b"\n"
    length = len(text).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + content


def object_array(whole, rng):
    """An array of objects, as np.save writes it with pickle."""
    file = io.BytesIO()
    np.save(file, np.array([Payload()] * 3, dtype=object), allow_pickle=True)
    return file.getvalue()


DTYPES = (
    *("<f8", ">f8", "|O", "O", "<U3", ">U2", "|S5", "<c16", "<f16", "<f2", "|b1", "?", "<M8[s]"),
    *("|V8", "<U0", "|S0", "<f3", "<i9", "|i1", "<U99999999", "|S2147483647", "<M8", "=f8", "f8"),
)
SHAPES = (
    *("(10,)", "(4, 3)", "()", "(-1,)", "(-4, -3)", f"({10**15},)", f"({10**15}, 0)", "(0,)"),
    *(f"(0, {10**18})", f"({2**62}, 4)", f"({2**32}, {2**32})", "(1,) * 5", f"({'9' * 400},)"),
    *(f"({'1, ' * 40})", "(True, 2)", "(2.0, 3)", "None", "[2, 3]", f"({10**9},)", f"({10**9}, 0)"),
)


def lying_header(whole, rng):
    descr, shape = DTYPES[rng.integers(len(DTYPES))], SHAPES[rng.integers(len(SHAPES))]
    order = ["True", "False", "1", "None"][rng.integers(4)]
    text = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}"
    return npy(text, rng.bytes(int(rng.integers(300))), int(rng.integers(1, 5)))


def code_as_header(whole, rng):
    mark = f"__import__('os').environ.update({MARK}='1')"
    texts = (
        *(mark, f"{{'descr': {mark}, 'fortran_order': False, 'shape': (1,), }}", "(" * 9000),
        *("-" * 9000 + "1", "[" * 5000 + "]" * 5000, "{'descr':" * 900, "9" * 9000, "1+" * 4000),
        *("{'descr': [('a', '<f8'), ('b', '|O')], 'fortran_order': False, 'shape': (3,), }", "\0"),
        *("{" + "'descr': '<f8', " * 200 + "}", "{'shape': (" + "1, " * 3000 + ")}", " " * 9000),
        *("{'descr': '<f8', 'descr': '|O', 'shape': (3,), }", "lambda: 0", "'" * 9000, "\xff" * 99),
    )
    return npy(texts[rng.integers(len(texts))], bytes(64), int(rng.integers(1, 4)))


def other_dtype(whole, rng):
    """The array of a .npy file in another type, honest in itself."""
    array = np.load(io.BytesIO(whole))
    if array.dtype.kind not in "biuf":
        array = np.arange(array.size).reshape(array.shape)
    kinds = (">f8", "<f2", "<f4", "<c16", "<i2", "|b1", "<U9", "|S9", "<f16", "<M8[s]", "<u8")
    with np.errstate(all="ignore"):
        array = np.nan_to_num(array).astype(np.int64).astype(kinds[rng.integers(len(kinds))])
    changes = (np.asfortranarray, np.ravel, lambda a: a[:0], lambda a: a[..., None], lambda a: a)
    file = io.BytesIO()
    np.save(file, changes[rng.integers(len(changes))](array))
    return file.getvalue()


def odd_values(whole, rng):
    """Entries that are bytes of no value, or such as no sum survives."""
    array = np.load(io.BytesIO(whole))
    odd = (
        *(np.full(array.shape, 1e308), np.full(array.shape, np.nan), np.full(array.shape, np.inf)),
        *(np.full(array.shape, np.longdouble("1e4000")), np.full(array.shape, 2**64 - 1)),
        *(np.full(array.shape, 7, np.uint8).view(bool), np.full(array.shape, -(2**63))),
        np.full(array.shape, 0xFFFFFFFF, np.uint32).view("<U1"),
        np.full(array.shape, 0xD800, np.uint32).view("<U1"),
        np.full(array.shape, b"\xff\xfe"),
    )
    file = io.BytesIO()
    np.save(file, odd[rng.integers(len(odd))])
    return file.getvalue()


ARRAYS = {
    each.__name__: each
    for each in (lying_header, code_as_header, object_array, other_dtype, odd_values)
}


def spoilt_array(whole, rng):
    """An archive of arrays in which one is spoilt, and all else is right."""
    members = members_of(whole)
    place = one_of(members, rng)
    members[place] = (members[place][0], any_of(ARRAYS, rng)(members[place][1], rng))
    return zipped(members, [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED][rng.integers(2)])
