"""A Perfetto trace, read with Perfetto's own schema (package perfetto 0.59.1).

Checks that tracks hang together and that slices begin and end in order and never overlap.
"""

from collections import Counter, defaultdict

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb


class File:
    """Tracks by their numbers: `names`, `parents` and `events`.

    An event is (time, type, name), of a track in `counted` it is (time, value).
    """

    def __init__(self, path):
        trace = pb.Trace()
        with open(path, "rb") as file:
            trace.ParseFromString(file.read())
        assert not UnknownFieldSet(trace)
        self.packets = trace.packet
        self.names, self.parents, self.counted = {}, {}, set()
        self.events = defaultdict(list)
        interned = {}
        for packet in trace.packet:
            parts = [packet, packet.track_event, packet.track_descriptor]
            assert not any(map(UnknownFieldSet, parts))
            for name in packet.interned_data.event_names:
                assert name.iid not in interned, "a name is given twice"
                interned[name.iid] = name.name
            kind = packet.WhichOneof("data")
            if kind == "track_descriptor":
                self._describe(packet.track_descriptor)
            else:
                assert kind == "track_event", kind
                self._add(packet.timestamp, packet.track_event, interned)

    def _describe(self, track):
        assert track.uuid not in self.names, "a track is made twice"
        assert track.parent_uuid in self.names or track.parent_uuid == 0
        self.names[track.uuid] = track.name
        self.parents[track.uuid] = track.parent_uuid
        if track.HasField("counter"):
            assert track.counter.unit == pb.CounterDescriptor.UNIT_SIZE_BYTES
            self.counted.add(track.uuid)

    def _add(self, at, event, interned):
        uuid = event.track_uuid
        assert uuid in self.names, "an event comes before its track"
        assert (uuid in self.counted) == (event.type == pb.TrackEvent.TYPE_COUNTER)
        if uuid in self.counted:
            self.events[uuid].append((at, event.counter_value))
        else:
            name = interned[event.name_iid] if event.name_iid else event.name
            self.events[uuid].append((at, event.type, name))

    def slices(self, uuid):
        """What lasts: (name, begin, end)."""
        # As Perfetto does: by time, and as in the file where times are equal.
        lasting = (e for e in self.events[uuid] if e[1] != pb.TrackEvent.TYPE_INSTANT)
        edges = sorted(lasting, key=lambda e: e[0])
        found, last_end = [], 0
        assert len(edges) % 2 == 0
        for begin, end in zip(edges[::2], edges[1::2]):
            assert begin[1] == pb.TrackEvent.TYPE_SLICE_BEGIN and begin[2]
            assert end[1] == pb.TrackEvent.TYPE_SLICE_END
            assert last_end <= begin[0] <= end[0]
            last_end = end[0]
            found.append((begin[2], begin[0], end[0]))
        return found

    def marks(self, uuid):
        """How often each thing happens that does not last, by name."""
        return Counter(e[2] for e in self.events[uuid] if e[1] == pb.TrackEvent.TYPE_INSTANT)
