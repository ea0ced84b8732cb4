"""Reads a Perfetto trace with Perfetto's own schema, see perfetto_file.py beside the tests of `trace`.

Prints {"titles": [...], "slices": {"TITLE/GROUP/TRACK": [[name, begin_ns, end_ns], ...]}, "marks":
{"TITLE/GROUP/TRACK": {name: count}}, "counters": {"TITLE/GROUP/TRACK": [[at_ns, bytes], ...]}} for
perfetto.rs to compare.
"""

import json
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "trace/tests"))
from perfetto_file import File


def main(path):
    file = File(path)
    names, parents = file.names, file.parents
    slices, marks, counters = {}, {}, {}
    for uuid, track in file.events.items():
        group = parents[uuid]
        place = "/".join([names[parents[group]], names[group], names[uuid]])
        if uuid in file.counted:
            counters[place] = track
        else:
            slices[place] = file.slices(uuid)
            marks[place] = file.marks(uuid)
    titles = [names[uuid] for uuid in names if parents[uuid] == 0]
    print(json.dumps({"titles": titles, "slices": slices, "marks": marks, "counters": counters}))


main(sys.argv[1])
