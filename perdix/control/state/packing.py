"""JSON text as few bytes: what is stored often and read seldom is compressed.

The first byte names the dictionary that the rest was compressed with. A dictionary never changes; a better one gets
another number, and the old one stays for what was stored with it.
"""

import zlib

PLAIN = 0  # no dictionary
ACCOUNT = 1  # accounts of decisions (:mod:`perdix.control.account`): their words, the commonest last

_ACCOUNT_WORDS = (
    '"proposed":{"mix":{},"reason":"scale_in","scale_out":2,"sentence":"'
    '"problems":["no data for ","is missing"],"notes":["a model is not there"],'
    '"basis":"observed just now at 1 worker, CPU up to about 1.00","high_per_s":'
    '"basis":"9 x mean worker of 41,735/s, not seen (workers lose 13 % per doubling)","high_per_s":'
    '"rejected_by":"the recovery would take 1,000 s, longer than the 600 s allowed","scale_out":'
    '"rejected_by":"it cannot carry the peak of the forecast of '
    '{"believed":{"capacities":[{"basis":"observed 2 h ago at 3 workers, CPU up to about 0.72","high_per_s":182400.0,'
    '"low_per_s":139000.0,"per_s":159300.0,"scale_out":3,"seen":true},{"basis":"11 x mean worker of 40,132/s, not seen '
    '(workers lose 13 % per doubling)","high_per_s":530600.0,"low_per_s":367300.0,"per_s":441500.0,"scale_out":11,'
    '"seen":false}],"downtimes_s":{"failure_s":30.0,"in_s":16.33,"lost_s":6.864,"out_s":36.2},"forecast":{"family":'
    '"ensemble","horizon_wape":0.1328,"maximum_p90_per_s":267000.0,"maximum_p95_per_s":300800.0,"maximum_per_s":'
    '243500.0,"mean_per_s":{"300 s":207500.0,"60 s":236100.0,"600 s":174600.0,"900 s":146500.0},"members":[{"family":'
    '"minute-arima","wape":0.04501,"weight":0.1964},{"family":"damped-trend","wape":0.04773,"weight":0.08083},'
    '{"family":"local-arima","wape":0.047,"weight":0.2142},{"family":"fast-arima","wape":0.04235,"weight":0.2522},'
    '{"family":"autoregression","wape":0.04187,"weight":0.2562},{"family":"last-value","wape":0.1067,"weight":'
    '0.0001202}],"origin_s":1760052260.0,"version":1,"wape":0.005528},"since_rescale_s":2880.0},"candidates":['
    '{"capacity_per_s":57670.0,"recovery_s":null,"rejected_by":"57,671/s do not exceed the mean workload of 247,317/s",'
    '"scale_out":1},{"capacity_per_s":260100.0,"recovery_s":221.4,"rejected_by":null,"scale_out":6}],"notes":[],"seen":'
    '{"age_s":0.0,"consumer_lag_records":0.0,"coverage":{"cpu_load":1.0,"throughput_per_s":1.0,"workload_per_s":1.0},'
    '"cpu_load":0.5381,"latency_p95_ms":623.8,"problems":[],"recent_workload_per_s":244700.0,"samples":{"duplicate":0,'
    '"masked":0,"out_of_order":0,"read":1365,"resets":0},"scale_out":10,"throughput_per_s":247300.0,"workload_per_s":'
    "247300.0}}"
)
_DICTIONARIES = {ACCOUNT: _ACCOUNT_WORDS.encode()}


def packed(text: str, dictionary: int = PLAIN) -> bytes:
    """Return text as bytes that :func:`unpacked` reads."""
    words = _DICTIONARIES.get(dictionary)
    stream = zlib.compressobj(6) if words is None else zlib.compressobj(6, zdict=words)
    return bytes([dictionary]) + stream.compress(text.encode()) + stream.flush()


def unpacked(content: bytes) -> str:
    """Return what was packed. Raises ``ValueError`` when it is damaged, or of a newer perdix."""
    if not content or (content[0] != PLAIN and content[0] not in _DICTIONARIES):
        raise ValueError(f"packed with dictionary {content[0] if content else 'none'}, which this perdix does not know")
    words = _DICTIONARIES.get(content[0])
    stream = zlib.decompressobj() if words is None else zlib.decompressobj(zdict=words)
    try:
        text = stream.decompress(content[1:]) + stream.flush()
    except zlib.error as error:
        raise ValueError(f"damaged ({error})") from None
    if not stream.eof:
        raise ValueError("damaged (it is cut short)")
    return text.decode()
