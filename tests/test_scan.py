"""The scanner against `json` and `decimal`, its back ends against each other, and damage of every kind."""

from __future__ import annotations

import json
import random
import re
import time
import types
from collections.abc import Iterator
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuwhy.sources import scan as scan_package
from gpuwhy.sources.columns import TABLES, Column, Kind, Table
from gpuwhy.sources.scan import Events, NotEvents, compiled, pure
from gpuwhy.timeline import MISSING

BackEnd = types.ModuleType

no_library = pytest.mark.skipif(not compiled.available(), reason="_scan is not built: build or install the package")
both = pytest.mark.parametrize(
    "back_end", [pytest.param(compiled, marks=no_library, id="compiled"), pytest.param(pure, id="pure")]
)
quick = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def event(**fields: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2, **fields}


def of_values(back_end: BackEnd, **fields: str) -> dict[str, Any]:
    """One device event with these raw texts as its fields; its row."""
    text = ",".join(f'"{key}": {value}' for key, value in fields.items())
    read = back_end.scan([b'[{"ph": "X", "cat": "kernel", ' + text.encode() + b"}]"])
    assert read.damage is None
    return {name: values[0] for name, values in read.tables["device"].items()}


def split(data: bytes, rng: random.Random) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        size = rng.choice((1, 2, 7, 64, 1000, 100_000))
        yield data[at : at + size]
        at += size


def flat(read: Events) -> dict[str, Any]:
    """Everything in an `Events`, comparable with ==."""
    fields = dict(vars(read))
    fields["tables"] = {
        table: {name: (values.dtype.str, values.tolist()) for name, values in columns.items()}
        for table, columns in read.tables.items()
    }
    return fields


def outcome(back_end: BackEnd, data: bytes, chunks: Iterator[bytes] | None = None, **options: Any) -> Any:
    try:
        return flat(back_end.scan([data] if chunks is None else chunks, **options))
    except NotEvents as error:
        return str(error)


# ---- the oracle: json and decimal ----


class Pairs(list[tuple[str, Any]]):
    """A JSON object with its keys in order, repeated ones too."""

    def last(self, *keys: str) -> Any:
        return next((value for key, value in reversed(self) if key in keys), None)


def loads(text: bytes | str) -> Any:
    return json.loads(text, object_pairs_hook=Pairs, parse_float=Decimal, parse_constant=lambda _: True, strict=False)


def exact(value: Any, kind: Kind) -> int:
    if isinstance(value, str):
        if not re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?", value, re.ASCII):
            return MISSING
        value = Decimal(value)
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return MISSING
    with localcontext() as context:
        context.prec = 2000
        if kind == Kind.NS:
            shifted = (Decimal(value) * 1000).quantize(Decimal(1), ROUND_HALF_EVEN)
            return int(shifted) if abs(shifted) <= 2**62 else MISSING
        whole = Decimal(value).to_integral_value()
        return int(whole) if whole == value and -(2**63) <= whole < 2**63 else MISSING


def oracle(data: bytes) -> tuple[dict[str, list[list[Any]]], dict[str, int], int]:
    """Rows of each table (CODE columns as values), skipped events by category, malformed elements."""
    top = loads(data)
    elements = top.last("traceEvents") if isinstance(top, Pairs) else top
    tables: dict[str, list[list[Any]]] = {table.name: [] for table in TABLES}
    skipped: dict[str, int] = {}
    malformed = 0
    for element in elements:
        if not isinstance(element, Pairs):
            malformed += 1
            continue
        cat, phase = element.last("cat"), element.last("ph")
        to = [table for table in TABLES if (cat or "") in table.cats and (phase or "") in table.phases]
        if not to:
            skipped[cat or ""] = skipped.get(cat or "", 0) + 1
            continue
        args = element.last("args")
        row = []
        for column in to[0].columns:
            source = args if column.in_args else element
            value = source.last(*column.keys) if isinstance(source, Pairs) else None
            row.append(value if column.kind == Kind.CODE else exact(value, column.kind))
        tables[to[0].name].append(row)
    return tables, skipped, malformed


def rows_of(read: Events) -> dict[str, list[list[Any]]]:
    """The same form as the oracle's."""
    texts = [loads(text) for text in read.texts]
    tables: dict[str, list[list[Any]]] = {}
    for table in TABLES:
        columns = []
        for column in table.columns:
            values = read.tables[table.name][column.name].tolist()
            if column.kind == Kind.CODE:
                values = [None if code < 0 else texts[code] for code in values]
            columns.append(values)
        tables[table.name] = [list(row) for row in zip(*columns, strict=True)]
    return tables


# ---- random traces ----

numbers = st.one_of(
    st.integers(-(2**64), 2**64).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=3).map(lambda value: f"{value:f}"),
    st.from_regex(r"\A-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,8}5?)?([eE][-+]?[0-9]{1,2})?\Z"),
)
texts = st.text(max_size=20).map(json.dumps) | st.text('aé漢\n\t "\\{}[],:', max_size=40).map(
    lambda text: json.dumps(text, ensure_ascii=False)
)
scalars = st.one_of(
    numbers,
    numbers.map(lambda n: f'"{n}"'),
    texts,
    st.sampled_from(["true", "false", "null", "NaN", "-Infinity"]),
)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4), max_leaves=8)
wanted = st.sampled_from(sorted({key for table in TABLES for column in table.columns for key in column.keys}))
categories = st.sampled_from(sorted({cat for table in TABLES for cat in table.cats} | {"other"})).map(json.dumps)
phases = st.sampled_from(["X", "s", "f", "i", "M", "C"]).map(json.dumps)
arguments = st.lists(st.tuples(wanted | st.text(max_size=12), values), max_size=8)
fields = st.lists(
    st.one_of(
        st.tuples(st.just("cat"), categories),
        st.tuples(st.just("ph"), phases),
        st.tuples(st.sampled_from(["ts", "dur", "pid", "tid", "id"]), scalars),
        st.tuples(st.sampled_from(["name", "pid"]), values),
        st.tuples(st.just("args"), arguments.map(dict) | values),
    ),
    max_size=9,
).map(tuple)


def write(value: Any, rng: random.Random) -> str:
    """JSON in an odd layout: a str is a raw token, a list an array, a dict or tuple of pairs an object."""

    def gap() -> str:
        return rng.choice(("", "", " ", "\n" + " " * rng.randrange(20), "\t\r\n"))

    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return f"[{gap()}" + f"{gap()},{gap()}".join(write(item, rng) for item in value) + f"{gap()}]"
    pairs = value.items() if isinstance(value, dict) else value
    inside = f"{gap()},{gap()}".join(f"{json.dumps(k)}{gap()}:{gap()}{write(v, rng)}" for k, v in pairs)
    return f"{{{gap()}{inside}{gap()}}}"


events = st.lists(st.one_of(fields, fields, fields, scalars), max_size=6)
header = st.dictionaries(st.text(max_size=8).filter(lambda key: key != "traceEvents"), values, max_size=3)


@st.composite
def documents(draw: st.DrawFn) -> tuple[bytes, random.Random]:
    rng = random.Random(draw(st.integers(0, 2**32)))
    elements: Any = [(("ph", '"X"'),), *draw(events)]
    before, after = draw(header), draw(header)
    document = elements if draw(st.booleans()) else (*before.items(), ("traceEvents", elements), *after.items())
    return write(document, rng).encode("utf-8", "surrogatepass"), rng


@both
@quick
@given(document=documents())
def test_any_json_reads_as_json_and_decimal_read_it(back_end: BackEnd, document: tuple[bytes, random.Random]) -> None:
    data, rng = document
    read = back_end.scan(split(data, rng))
    tables, skipped, malformed = oracle(data)
    assert read.damage is None
    assert rows_of(read) == tables
    assert read.malformed == malformed
    assert read.size == len(data)
    assert read.count == sum(map(len, tables.values())) + sum(skipped.values())
    assert read.skipped == skipped
    assert len(set(read.texts)) == len(read.texts)
    assert all(text in data for text in read.texts)
    top = loads(data)
    if isinstance(top, Pairs):
        assert {key: loads(text) for key, text in read.header.items()} == {
            key: top.last(key) for key, _ in top if key != "traceEvents"
        }


@no_library
@quick
@given(document=documents(), data=st.data())
def test_back_ends_agree_on_every_damaged_byte(document: tuple[bytes, random.Random], data: st.DataObject) -> None:
    text, rng = document
    broken = bytearray(text)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(broken) - 1))
        broken[place] = data.draw(st.sampled_from(b'"\\{}[],:0-.eEnNtI\x00\x1f\x80\xff \n') | st.integers(0, 255))
    expected = outcome(pure, bytes(broken))
    assert outcome(compiled, bytes(broken)) == expected
    assert outcome(compiled, b"", split(bytes(broken), rng)) == expected
    assert outcome(pure, b"", split(bytes(broken), rng)) == expected


# ---- a small file, cut and broken everywhere ----

SMALL = (
    json.dumps(
        {
            "schemaVersion": 1,
            "deviceProperties": [{"id": 0, "name": "NVIDIA H200"}],
            "traceEvents": [
                event(name="gemm", ts=5157602217529.509, args={"correlation": 9, "Input Dims": [[16, 1025], []]}),
                {"ph": "s", "id": 9, "pid": 1, "tid": 1, "ts": 1.5, "cat": "ac2g", "name": "ac2g", "bp": "e"},
                event(cat="cpu_op", name='a "quoted" \\ one', args={"Call stack": "f\n  g", "External id": 3}),
                {"name": "process_labels", "ph": "M", "pid": "Spans", "tid": 0, "args": {"labels": "GPU 0"}},
            ],
            "traceName": "/tmp/x.json",
        },
        indent=1,
    )
).encode()


@both
def test_cut_anywhere_keeps_exactly_the_complete_events(back_end: BackEnd) -> None:
    start = SMALL.index(b"[", SMALL.index(b"traceEvents")) + 1
    decoder = json.JSONDecoder()
    ends, at, text = [], start, SMALL.decode()
    for _ in range(4):
        _, at = decoder.raw_decode(text, text.index("{", at))
        ends.append(at)
    for cut in range(len(SMALL)):
        if cut < start:
            with pytest.raises(NotEvents):
                back_end.scan([SMALL[:cut]])
            continue
        read = back_end.scan([SMALL[:cut]])
        assert read.count == sum(end <= cut for end in ends)
        assert read.damage is not None
        assert f"{cut:,}" in read.damage
        assert sum(len(columns["pid"]) for columns in read.tables.values()) == read.count
        assert read.size == cut
    assert back_end.scan([SMALL]).damage is None


@no_library
def test_back_ends_agree_wherever_one_byte_is_wrong() -> None:
    rng = random.Random(1)
    for place in range(len(SMALL)):
        broken = SMALL[:place] + bytes([rng.randrange(256)]) + SMALL[place + 1 :]
        assert outcome(compiled, broken) == outcome(pure, broken)


@both
def test_pieces_of_one_byte_give_the_same(back_end: BackEnd) -> None:
    for limit in (5, 20, 100, 1000, 1 << 20):  # longest key with its value, or event
        pieces = (SMALL[i : i + 1] for i in range(len(SMALL)))
        assert outcome(back_end, b"", pieces, limit=limit) == outcome(pure, SMALL, limit=limit)


# ---- numbers ----


@both
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5157391732291.071", 5157391732291071),
        ("1790857026000000", 1790857026000000000),
        ("0", 0),
        ("-0", 0),
        ("-0.001", -1),
        ("28.5", 28500),
        ("1e+06", 10**9),
        ("1.5E3", 1500000),
        ("1e-3", 1),
        ("1e-99999999999999999999", 0),
        ("0e99999999999999999999", 0),
        ("1e99999999999999999999", MISSING),
        ("0.0005", 0),
        ("0.0015", 2),
        ("0.0025", 2),
        ("0.00250000000000000000000000000000001", 3),
        ("-0.0015", -2),
        ("9007199254740993.001", MISSING),
        ("4503599627370497.001", 4503599627370497001),
        ("4611686018427387.904", 2**62),
        ("-4611686018427387.904", -(2**62)),
        ("4611686018427387.9044", 2**62),
        ("4611686018427387.905", MISSING),
        ('"12.5"', 12500),
        ('" 12.5"', MISSING),
        ('"12.5us"', MISSING),
        ('""', MISSING),
        ('"-"', MISSING),
        ('"NaN"', MISSING),
        ("NaN", MISSING),
        ("nan", MISSING),
        ("-nan", MISSING),
        ("Infinity", MISSING),
        ("-Infinity", MISSING),
        ("inf", MISSING),
        ("null", MISSING),
        ("true", MISSING),
        ("[1]", MISSING),
        ('{"a": 1}', MISSING),
        ("1" + "0" * 5000, MISSING),
        ("1" + "0" * 5000 + "e-5000", 1000),
        ("0." + "0" * 5000 + "1e5001", 1000),
    ],
)
def test_times_are_exact_decimal_nanoseconds(back_end: BackEnd, text: str, expected: int) -> None:
    assert of_values(back_end, ts=text)["ts"] == expected


@both
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12", 12),
        ("-7", -7),
        ("2.0", 2),
        ("1.5e1", 15),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775807", -(2**63) + 1),
        ("9223372036854775808", MISSING),
        ("18446744073709551615", MISSING),
        ("1.5", MISSING),
        ("1.00000000000000000000000001", MISSING),
        ("0.1", MISSING),
        ("1e-400", MISSING),
        ('"331777"', 331777),
        ('"4294967295"', 4294967295),
        ('"0x10"', MISSING),
        ("true", MISSING),
        ("null", MISSING),
        ("NaN", MISSING),
        ("[]", MISSING),
    ],
)
def test_integers_are_integers_or_missing(back_end: BackEnd, text: str, expected: int) -> None:
    assert of_values(back_end, args=f'{{"correlation": {text}}}')["correlation"] == expected


@both
def test_absent_is_missing_and_minus_one(back_end: BackEnd) -> None:
    row = of_values(back_end, pid="null")
    assert row["ts"] == row["bytes"] == MISSING
    assert row["pid"] == row["tid"] == -1
    assert row["ts"].dtype == np.int64
    assert row["pid"].dtype == np.int32


# ---- keys, routes and texts ----


@both
def test_the_last_of_a_repeated_key_wins(back_end: BackEnd) -> None:
    assert of_values(back_end, ts='1,"ts": 2')["ts"] == 2000
    args = '{"External id": 1, "external id": 2, "External id": 3}'
    assert of_values(back_end, args=args)["external_id"] == 3
    assert of_values(back_end, args='{"external id": 1, "External id": null}')["external_id"] == MISSING
    assert of_values(back_end, args='{"stream": 7}, "args": {"device": 1}')["stream"] == MISSING
    assert of_values(back_end, args='{"stream": 7}, "args": 5')["stream"] == MISSING
    assert of_values(back_end, args='5, "args": {"args": {"stream": 1}, "stream": 7}')["stream"] == 7


@both
def test_args_may_come_before_cat(back_end: BackEnd) -> None:
    read = back_end.scan([b'[{"args": {"stream": 7}, "cat": "x", "dur": 1, "cat": "kernel", "ph": "X"}]'])
    assert read.tables["device"]["stream"].tolist() == [7]


@both
def test_escaped_names_are_the_same_names(back_end: BackEnd) -> None:
    text = rb'[{"p\u0068": "\u0058", "c\u0061t": "k\u0065rnel", "args": {"str\u0065am": 7}'
    read = back_end.scan([text + rb', "n\u0061me": "\ud83d\ude00"}]'])
    assert read.tables["device"]["stream"].tolist() == [7]
    assert read.texts[0] == rb'"\ud83d\ude00"'
    table = Table("t", ("é😀",), ("X",), (Column("v", ("ключ",), Kind.CODE),))
    for text in (
        '[{"ph":"X","cat":"é😀","ключ":1}]'.encode(),
        json.dumps([{"ph": "X", "cat": "é😀", "ключ": 1}]).encode(),
    ):
        assert back_end.scan([text], [table]).tables["t"]["v"].tolist() == [0]
    for bad in (rb"kernel\q", rb"kernel\u12", rb"\ud83dkernel", rb"kernel\u00zz"):
        assert back_end.scan([b'[{"ph": "X", "cat": "' + bad + b'"}]']).skipped == {bad.decode(): 1}


@both
def test_texts_are_the_bytes_of_the_file(back_end: BackEnd) -> None:
    tokens = [
        b'"a\\/b"',
        b'"caf\xc3\xa9"',
        b'"\xff\xfe"',
        b'"tab\there\x00"',
        b"-0",
        b"1E5",
        b"true",
        b"[1,  {}]",
        b'{ "a":"]" }',
    ]
    tokens += [b'"x"', b"1", b'"1"', b"1.0", b"NaN", b"false", b"0"]
    data = b"[" + b",".join(b'{"ph":"X","cat":"kernel","name":' + token + b"}" for token in tokens * 2) + b"]"
    read = back_end.scan([data])
    assert [read.texts[code] for code in read.tables["device"]["name"]] == tokens * 2
    assert len(set(read.texts)) == len(read.texts)


@both
def test_events_without_a_table_are_counted_by_category(back_end: BackEnd) -> None:
    items = [
        event(cat="gpu_user_annotation"),
        event(cat="gpu_user_annotation"),
        {"ph": "C"},
        event(cat=5),
        event(ph=1),
    ]
    read = back_end.scan([json.dumps([*items, event()]).encode()])
    assert read.skipped == {"gpu_user_annotation": 2, "": 1, "5": 1, "kernel": 1}
    assert read.count == 6
    many = [event(cat=f"c{i}") for i in range(1500)] + [event(cat="c3"), event(cat="x" * 300)]
    read = back_end.scan([json.dumps(many).encode()])
    assert len(read.skipped) == 1001
    assert (read.skipped["c3"], read.skipped[""]) == (2, 501)


@both
def test_many_rows_and_many_names_survive_the_growth_of_everything(back_end: BackEnd) -> None:
    n = 30_000
    read = back_end.scan([b"["] + [b'{"ph":"X","cat":"kernel","name":"n%d","ts":%d}' % (i, i) for i in range(n)])
    device = read.tables["device"]
    assert device["ts"].tolist() == [i * 1000 for i in range(n)]
    assert [read.texts[code] for code in device["name"]] == [b'"n%d"' % i for i in range(n)]


@both
def test_two_scans_side_by_side_do_not_touch(back_end: BackEnd) -> None:
    def interleaved() -> Iterator[bytes]:
        yield SMALL[:200]
        inner.append(outcome(back_end, SMALL))
        yield SMALL[200:]

    inner: list[Any] = []
    assert outcome(back_end, b"", interleaved()) == outcome(back_end, SMALL) == inner[0]


@no_library
def test_tables_beyond_the_library_are_refused_not_hung() -> None:
    def of(own: int, in_args: int, name: str = "k") -> Table:
        levels = [*[False] * own, *[True] * in_args]
        columns = (Column(f"c{i}", (f"{name}{i}",), Kind.INT, inside) for i, inside in enumerate(levels))
        return Table("t", ("a",), ("X",), tuple(columns))

    others = {f"u{i}": i for i in range(2000)}
    data = json.dumps([{"ph": "X", "cat": "a", "k124": 3, "args": {"k252": 5, **others}, **others}]).encode()
    read = compiled.scan([data], [of(125, 128)]).tables["t"]
    assert (read["c124"].tolist(), read["c252"].tolist()) == ([3], [5])
    for tables in ([of(126, 0)], [of(0, 129)], [of(0, 600)], [of(0, 100), of(0, 29, "other")]):
        with pytest.raises(ValueError, match="more than 128 keys"):
            compiled.scan([data], tables)
    assert compiled.scan([data], [of(1, 1, "k" * 511)]).count == 1
    for table in (of(0, 1, "k" * 512), of(1, 0, "é" * 256), Table("t", ("a" * 513,), ("X",), ())):
        with pytest.raises(ValueError, match="longer than 512 bytes"):
            compiled.scan([data], [table])


# ---- top level ----


@both
@pytest.mark.parametrize(
    ("text", "count", "damage"),
    [
        ('{"traceEvents": []}', 0, None),
        ("[]", 0, None),
        ("[", 0, None),
        ('\ufeff{"traceEvents": [{}]} \n', 1, None),
        ('{"traceEvents": [{}], "a": 1, "traceEvents": [{}, {}]}', 3, None),
        ('{"tr\\u0061ceEvents": [{}]}', 1, None),
        ("[\n{}\n{}\n{}\n", 3, None),
        ("[\n{},\n{},\n", 2, None),
        ("[{},]", 1, None),
        ("[{}] x", 1, "something follows the end of the JSON at byte 5"),
        ("[{}, x]", 1, "the JSON is broken: 'x' does not belong at byte 5"),
        ("[{}, {", 1, "the JSON ends in the middle of an event at byte 6"),
        ('[{}, {"a": 12', 1, "the JSON ends in the middle of an event at byte 13"),
        ('{"traceEvents": [{}]', 1, "the JSON ends before it is closed at byte 20"),
        ('{"traceEvents": [{}', 1, "the JSON ends before its list of events is closed at byte 19"),
        ('{"traceEvents": [{}], "a": [1', 1, "the JSON ends in the middle of a top-level value at byte 29"),
        ('{"traceEvents": [{}], "a" 1}', 1, "the JSON is broken: '1' does not belong at byte 26"),
        ('{"traceEvents": [{}],}', 1, "the JSON is broken: '}' does not belong at byte 21"),
        ('[{}, {"a": [1}]', 1, "the JSON is broken: '}' does not belong at byte 13"),
        ('[{}, {"a": 01}]', 1, "the JSON is broken: '1' does not belong at byte 12"),
        ('[{}, {"a": 1,}]', 1, "the JSON is broken: '}' does not belong at byte 13"),
        ('[{}, {"a": tru}]', 1, "the JSON is broken: 't' does not belong at byte 11"),
        ('[{}, {"a": \x00}]', 1, "the JSON is broken: the byte 0x00 does not belong at byte 11"),
        ("[{}, {a: 1}]", 1, "the JSON is broken: 'a' does not belong at byte 6"),
    ],
)
def test_what_is_forgiven_and_what_is_damage(back_end: BackEnd, text: str, count: int, damage: str | None) -> None:
    for chunks in ([text.encode()], [bytes([byte]) for byte in text.encode()]):
        read = back_end.scan(chunks)
        assert (read.count, read.damage) == (count, damage)
        assert read.is_list == text.startswith("[")


@both
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "the file is empty"),
        (b" \n", "the file is empty"),
        (b"\xef\xbb\xbf", "the file is empty"),
        (b"\xef\xbb", "not JSON: it starts with the byte 0xef, not with an object or a list"),
        (b"time,gpu\n", "not JSON: it starts with 't', not with an object or a list"),
        (b"\x1f\x8b\x08", "not JSON: it starts with the byte 0x1f, not with an object or a list"),
        (b"{}", "an empty JSON object, without traceEvents"),
        (
            b'{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6}',
            "JSON without traceEvents; its keys are 'a', 'b', 'c', 'd', 'e'",
        ),
        (b'{"traceEvents": 5}', "its traceEvents is not a list"),
        (
            b'{"a": [1',
            "no traceEvents before the damage: the JSON ends in the middle of a top-level value at byte 8",
        ),
        (b"[1, 2]", "a JSON list without events: its elements are not objects"),
        (b"[INFO] started", "a JSON list without events: the JSON is broken: 'I' does not belong at byte 1"),
        (b"5", "not JSON: it starts with '5', not with an object or a list"),
    ],
)
def test_other_files_are_refused_by_what_they_are(back_end: BackEnd, text: bytes, message: str) -> None:
    with pytest.raises(NotEvents) as refused:
        back_end.scan([text])
    assert str(refused.value) == message


@both
def test_elements_that_are_no_objects_are_counted(back_end: BackEnd) -> None:
    read = back_end.scan([b'[1, "a", null, [{}], {}, NaN]'])
    assert (read.count, read.malformed, read.damage) == (1, 5, None)


@both
def test_header_values_are_kept_as_written(back_end: BackEnd) -> None:
    read = back_end.scan([b'{"a\\n": {"x" : [1]}, "big": "' + b"x" * (17 << 20) + b'", "traceEvents": [], "b": 1.50}'])
    assert read.header == {"a\n": b'{"x" : [1]}', "b": b"1.50"}


# ---- hostile input ----


@both
@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":'])
def test_512_brackets_are_read_and_513_are_damage(back_end: BackEnd, opening: str) -> None:
    closing = "".join({"[": "]", "{": "}"}[char] for char in reversed(opening) if char in "[{")

    def nested(depth: int) -> bytes:
        times, rest = divmod(depth - 2, len(closing))
        inside = opening * times + "[" * rest + "]" * rest + closing * times
        return f'[{{"ph": "X"}}, {{"args": {{"x": {inside}}}}}]'.replace(":}", ":1}").replace(":]", ":1]").encode()

    assert back_end.scan([nested(512)]).damage is None
    read = back_end.scan([nested(513)])
    assert read.count == 1
    assert read.damage is not None
    assert read.damage.startswith("nested more than 512 deep at byte ")
    assert nested(513)[read.size : read.size + 1] in (b"[", b"{")
    assert back_end.scan([b"[{}," + opening.encode() * 200_000]).count == 1


@both
def test_an_endless_value_is_damage_not_memory(back_end: BackEnd) -> None:
    for start in (b'[{}, {"name": "', b'{"traceEvents": [{}], "x": "', b"[{}, [0, "):
        taken = 0

        def endless(start: bytes = start) -> Iterator[bytes]:
            nonlocal taken
            yield start
            while True:
                taken += 1
                yield b"0" * 1000

        read = back_end.scan(endless(), limit=1 << 20)
        assert read.damage is not None
        assert "longer than" in read.damage
        assert taken < 3500
    fits = b'[{"name": "' + b"x" * 100 + b'"}]'
    assert back_end.scan([fits], limit=len(fits) - 2).damage is None
    assert back_end.scan([fits], limit=len(fits) - 3).damage is not None
    assert back_end.scan([b'[{}, "' + b"x" * 100 + b'"]'], limit=100).malformed == 0  # it is damage


@both
def test_a_long_value_in_small_pieces_is_not_read_again_and_again(back_end: BackEnd) -> None:
    piece = b"x \\n" * 256
    start = time.process_time()
    read = back_end.scan([b'[{"ph": "X", "args": {"Call stack": "', *[piece] * 8192, b'"}}]'])
    assert read.count == 1
    assert time.process_time() - start < 8  # 8 MiB: 0.1 s, or 1 in Python; read again for every piece it would be more


@both
def test_what_the_source_of_the_bytes_raises_passes_through(back_end: BackEnd) -> None:
    def failing() -> Iterator[bytes]:
        yield SMALL
        raise EOFError("the gzip stream ends too early")

    with pytest.raises(EOFError, match="too early"):
        back_end.scan(failing())


@both
def test_progress_grows_and_nothing_is_read_after_the_damage(back_end: BackEnd) -> None:
    told: list[int] = []
    back_end.scan([SMALL[:-1], b" " * (20 << 20), b"}"], on_progress=told.append)
    assert len(told) >= 2
    assert told == sorted(told)

    def after_damage() -> Iterator[bytes]:
        yield b"[{}, }" + b" " * (2 << 20)
        raise AssertionError("read on")

    assert back_end.scan(after_damage()).count == 1


def test_the_environment_chooses_the_python_back_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUWHY_PURE_PYTHON", "1")
    assert not scan_package.is_compiled()
    assert flat(scan_package.scan([SMALL])) == flat(pure.scan([SMALL]))
    monkeypatch.delenv("GPUWHY_PURE_PYTHON")
    assert scan_package.is_compiled() == compiled.available()
