"""What servers, proxies and attackers answer, and no library's documentation mentions."""

import gzip

DEEP = b"[" * 200_000

BODIES = {
    "nothing": b"",
    "null": b"null",
    "a number": b"1e999",
    "a text": b'"oh"',
    "a list": b"[]",
    "half": b'{"jobs": [{"jid": "a"',
    "deep": DEEP,
    "deep in an error": b'{"errors": ' + DEEP,
    "deep and whole": b"[" * 100_000 + b"]" * 100_000,
    "a number for an error": b'{"errors": [1], "error": 1, "kind": "Status", "message": 1}',
    "no errors": b'{"errors": [], "error": [], "kind": "Status"}',
    "null for errors": b'{"errors": null, "error": null, "kind": "Status", "message": null}',
    "a text for errors": b'{"errors": "no", "error": {"a": 1}, "kind": "Status", "message": {"a": [1]}}',
    "numbers for objects": b'{"jobs": [1], "jid": 1, "kind": "Scale", "spec": 1, "status": [1], "scale_out": {}}',
    "texts for numbers": b'{"jobs": "x", "kind": "Scale", "spec": {"replicas": "2"}, "scale_out": "2", "settled": 3}',
    "half a pair": b'{"errors": ["\\ud800"], "error": "\\ud800", "kind": "Status", "message": "\\ud800"}',
    "not UTF-8": b'{"errors": ["\xff\xfe"]}',
    "a page": b"<html>502 Bad Gateway</html>",
}
CODINGS = {"gzip that is none": b"\x1f\x8b\x08garbage", "half of a gzip": gzip.compress(b'{"jobs": []}' * 50)[:-9]}
STATUSES = (b"200 OK", b"204 No Content", b"302 Found", b"400 Bad Request", b"401 No", b"403 No", b"404 No", b"409 No",
            b"422 No", b"429 Later", b"500 Oh", b"503 Busy")  # fmt: skip
