# A machine at a tap, as the kernel sees one: it opens the tap, sends frames, and reads those that it is told to.
# Arguments: the tap, how many frames. Prints a line when they are sent. A line of input such as `100 2000` has it read 100
# frames, one each 2000 us; it prints another line then. Ends when its input does.
import fcntl
import os
import struct
import sys
import time

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 2, 0x1000
tap = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", sys.argv[1].encode(), IFF_TAP | IFF_NO_PI))
os.system(f"ip link set dev {sys.argv[1]} up")
payload = bytes(1000)
udp = struct.pack("!HHHH", 4000, 9, 8 + len(payload), 0) + payload
head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0,
                   bytes([10, 77, 0, 3]), bytes([10, 77, 0, 9]))
total = sum(struct.unpack("!10H", head))
total = (total & 0xFFFF) + (total >> 16)
checksum = ~(total + (total >> 16)) & 0xFFFF
ip = head[:10] + struct.pack("!H", checksum) + head[12:]
ethernet = bytes.fromhex("020000000009" "020000000003" "0800")
for _ in range(int(sys.argv[2])):
    os.write(tap, ethernet + ip + udp)
print("sent", flush=True)
for line in sys.stdin:
    count, period_us = map(int, line.split())
    begin = time.monotonic()
    for n in range(count):
        time.sleep(max(0, begin + n * period_us / 1e6 - time.monotonic()))
        os.read(tap, 65536)
    print("read", flush=True)
