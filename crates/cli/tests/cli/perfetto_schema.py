"""Reads a Perfetto trace with Perfetto's own schema (package perfetto 0.59.1).

Checks that tracks hang together and that slices begin and end in order and never overlap, then
prints {"titles": [...], "slices": {"TITLE/GROUP/TRACK": [[name, begin_ns, end_ns], ...]}, "marks":
{"TITLE/GROUP/TRACK": {name: count}}, "counters": {"TITLE/GROUP/TRACK": [[at_ns, bytes], ...]}} for
perfetto.rs to compare.
"""

import json
import sys
from collections import Counter, defaultdict

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb


def main(path):
    trace = pb.Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    assert not UnknownFieldSet(trace)

    tracks, parents, names, counted = {}, {}, {}, set()
    events = defaultdict(list)
    for packet in trace.packet:
        assert not any(map(UnknownFieldSet, [packet, packet.track_event, packet.track_descriptor]))
        for name in packet.interned_data.event_names:
            assert name.iid not in names, "a name is given twice"
            names[name.iid] = name.name
        kind = packet.WhichOneof("data")
        if kind == "track_descriptor":
            descriptor = packet.track_descriptor
            assert descriptor.uuid not in tracks, "a track is made twice"
            assert descriptor.parent_uuid in tracks or descriptor.parent_uuid == 0
            tracks[descriptor.uuid] = descriptor.name
            parents[descriptor.uuid] = descriptor.parent_uuid
            if descriptor.HasField("counter"):
                assert descriptor.counter.unit == pb.CounterDescriptor.UNIT_SIZE_BYTES
                counted.add(descriptor.uuid)
        else:
            assert kind == "track_event", kind
            event = packet.track_event
            assert event.track_uuid in tracks, "an event comes before its track"
            assert (event.track_uuid in counted) == (event.type == pb.TrackEvent.TYPE_COUNTER)
            if event.track_uuid in counted:
                events[event.track_uuid].append((packet.timestamp, event.counter_value))
                continue
            name = names[event.name_iid] if event.name_iid else event.name
            events[event.track_uuid].append((packet.timestamp, event.type, name))

    slices, marks, counters = {}, {}, {}
    for uuid, track in events.items():
        group = parents[uuid]
        place = "/".join([tracks[parents[group]], tracks[group], tracks[uuid]])
        if uuid in counted:
            counters[place] = track
            continue
        # As Perfetto does: by time, and as in the file where times are equal.
        edges = sorted((e for e in track if e[1] != pb.TrackEvent.TYPE_INSTANT), key=lambda e: e[0])
        found, last_end = [], 0
        assert len(edges) % 2 == 0
        for begin, end in zip(edges[::2], edges[1::2]):
            assert begin[1] == pb.TrackEvent.TYPE_SLICE_BEGIN and begin[2]
            assert end[1] == pb.TrackEvent.TYPE_SLICE_END
            assert last_end <= begin[0] <= end[0]
            last_end = end[0]
            found.append((begin[2], begin[0], end[0]))
        slices[place] = found
        instants = (e[2] for e in track if e[1] == pb.TrackEvent.TYPE_INSTANT)
        marks[place] = Counter(instants)
    titles = [tracks[uuid] for uuid in tracks if parents[uuid] == 0]
    print(json.dumps({"titles": titles, "slices": slices, "marks": marks, "counters": counters}))


main(sys.argv[1])
