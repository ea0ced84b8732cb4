"""Reads an export of the capture with Perfetto's own schema (package perfetto 0.59.1).

Checks that tracks hang together, that slices begin and end in order and never overlap, and that
the figures are those of the capture. Run by perfetto.rs.
"""

import sys
from collections import Counter, defaultdict

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb


def main(path):
    trace = pb.Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    assert not UnknownFieldSet(trace)

    tracks, parents, names = {}, {}, {}
    events = defaultdict(list)
    for packet in trace.packet:
        assert not any(map(UnknownFieldSet, [packet, packet.track_event, packet.track_descriptor]))
        assert packet.trusted_packet_sequence_id == 1
        kind = packet.WhichOneof("data")
        for name in packet.interned_data.event_names:
            assert name.iid not in names, "a name is given twice"
            names[name.iid] = name.name
        if kind == "track_descriptor":
            descriptor = packet.track_descriptor
            assert descriptor.uuid not in tracks, "a track is made twice"
            tracks[descriptor.uuid] = descriptor.name
            parents[descriptor.uuid] = descriptor.parent_uuid
            assert descriptor.parent_uuid in tracks or descriptor.parent_uuid == 0
            assert descriptor.child_ordering == pb.TrackDescriptor.EXPLICIT
        else:
            assert kind == "track_event", kind
            event = packet.track_event
            assert event.track_uuid in tracks, "an event comes before its track"
            name = names[event.name_iid] if event.name_iid else event.name
            events[event.track_uuid].append((packet.timestamp, event.type, name))

    assert list(tracks.values())[:3] == ["capture", "pCPUs", "vCPUs"], tracks
    path_of = lambda uuid: tracks[parents[uuid]] + "/" + tracks[uuid]
    assert {path_of(uuid) for uuid in events} == {
        "pCPUs/pCPU 0", "pCPUs/pCPU 1", "vCPUs/d0v0", "vCPUs/d1v0", "vCPUs/d2v0",
    }

    slices = {}
    for uuid, track in events.items():
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
        slices[path_of(uuid)] = found

    # 164 waits of the server, the longest 10,041,297 ns; 386 wake-ups of the control domain.
    waits = [end - begin for name, begin, end in slices["vCPUs/d1v0"] if name == "waiting: woken"]
    assert (len(waits), min(waits), max(waits)) == (164, 8427, 10041297), waits
    waits = [end - begin for name, begin, end in slices["vCPUs/d0v0"] if name == "waiting: woken"]
    assert (len(waits), max(waits)) == (386, 14008)
    runners = Counter(name for name, _, _ in slices["pCPUs/pCPU 1"])
    assert set(runners) == {"d1v0", "d2v0"}, runners
    # A vCPU runs on its own track when its pCPU's track says so.
    for vcpu in ["d0v0", "d1v0", "d2v0"]:
        own = [s[1:] for s in slices["vCPUs/" + vcpu] if s[0].startswith("running")]
        there = [s[1:] for p in "01" for s in slices["pCPUs/pCPU " + p] if s[0] == vcpu]
        assert own == there, vcpu
    marks = Counter(
        (tracks[uuid], event[2])
        for uuid, track in events.items()
        for event in track
        if event[1] == pb.TrackEvent.TYPE_INSTANT
    )
    assert marks["d1v0", "kept: rate limit"] == 4, marks
    print(f"{len(trace.packet)} packets, {sum(map(len, slices.values()))} slices: fine")


main(sys.argv[1])
