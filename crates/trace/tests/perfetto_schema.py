"""Reads an export of the capture with Perfetto's own schema, see perfetto_file.py.

Checks that the figures are those of the capture. Run by perfetto.rs.
"""

import sys
from collections import Counter

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

sys.dont_write_bytecode = True
from perfetto_file import File


def main(path):
    file = File(path)
    names = file.names
    for packet in file.packets:
        assert packet.trusted_packet_sequence_id == 1
        if packet.WhichOneof("data") == "track_descriptor":
            assert packet.track_descriptor.child_ordering == pb.TrackDescriptor.EXPLICIT

    assert list(names.values())[:3] == ["capture", "pCPUs", "vCPUs"], names
    path_of = lambda uuid: names[file.parents[uuid]] + "/" + names[uuid]
    assert {path_of(uuid) for uuid in file.events} == {
        "pCPUs/pCPU 0", "pCPUs/pCPU 1", "vCPUs/d0v0", "vCPUs/d1v0", "vCPUs/d2v0",
    }
    slices = {path_of(uuid): file.slices(uuid) for uuid in file.events}

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
    kept = sum(file.marks(u)["kept: rate limit"] for u in file.events if names[u] == "d1v0")
    assert kept == 4, kept
    print(f"{len(file.packets)} packets, {sum(map(len, slices.values()))} slices: fine")


main(sys.argv[1])
