# Frames with VLAN tags, sent by the interface `end` of this network namespace, and as they arrive at `end` of another.
# Arguments: the other namespace's file, then frames in hexadecimal. Prints for each the tag that was beside it when it
# arrived (TPID and TCI), or 0 0, and the frame; or `lost`.
import ctypes
import socket
import struct
import sys

ETH_P_ALL, SOL_PACKET, PACKET_AUXDATA, TP_STATUS_VLAN_VALID = 3, 263, 8, 16


def at_end():
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    raw.bind(("end", ETH_P_ALL))
    raw.settimeout(5)
    return raw


sender = at_end()
with open(sys.argv[1]) as there:
    if ctypes.CDLL(None, use_errno=True).setns(there.fileno(), 0) != 0:
        sys.exit(f"setns: {ctypes.get_errno()}")
receiver = at_end()
receiver.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
for given in sys.argv[2:]:
    frame = bytes.fromhex(given)
    sender.send(frame)
    said = "lost"
    try:
        while said == "lost":
            came, extra, _, _ = receiver.recvmsg(2048, 256)
            if came[-8:] != frame[-8:]:
                continue  # What somebody's kernel has sent by itself.
            status, _, _, _, _, tci, tpid = struct.unpack("=IIIHHHH", extra[0][2][:20])
            beside = (tpid, tci) if status & TP_STATUS_VLAN_VALID else (0, 0)
            said = f"{beside[0]:x} {beside[1]:x} {came.hex()}"
    except TimeoutError:
        pass
    print(said, flush=True)
