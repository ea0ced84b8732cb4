#!/bin/busybox sh
# In dom0: guests of `lab run` on pCPU 1, a server whose client in dom0 asks at random, a sleeper and a loop, under credit2. They are recorded under a
# rate limit of 1 ms, and then under others that are really set. Sections are told apart by `=== NAME` and `--- CODE`.
say() {
	name=$1
	shift
	echo "=== $name"
	"$@" 2>&1
	echo "--- $?"
}

limit() {
	xl sched-credit2 -s -p lowtail "$@"
}

# What `lowtail predict` says of the recording under limit $1, as JSON. (The serial line is too slow for recordings.)
predict() {
	file=/tmp/$1.bin
	shift
	lowtail predict $file --json --seeds 2 --anyway --name d1=server --name d2=timer --name d3=hog "$@"
}

cat >/tmp/x.toml <<-END
	title = "three guests"
	duration = "60s"
	[host]
	pcpus = 1
	costs = "xen-2017"
	scheduler = { kind = "credit2", version = "4.21", ratelimit = "900us" }
	[vm.server]
	workload = { kind = "request-server", service = "100us", load = { open = { exponential = "2500us" } } }
	[vm.timer]
	workload = { kind = "timer-sleeper", sleep = { exponential = "1500us" }, work = "100us", wakeups = 100000000 }
	[vm.hog]
	workload = { kind = "cpu-loop" }
END
lowtail lab run /tmp/x.toml --on dom0 --seconds 60 >/tmp/lab.out 2>&1 &
lab=$!
# What `lab run` measures before that is under other limits.
until limit 2>/dev/null | grep -q 900; do
	sleep 0.1
	if ! kill -0 $lab; then
		say lab cat /tmp/lab.out
		exit 1
	fi
done
limit -r 1000
sleep 1.5
say record-1000 lowtail host record --duration 5s -o /tmp/1000.bin
limit -r 0
sleep 0.1
say record-0 lowtail host record --duration 5s -o /tmp/0.bin
limit -r 300
sleep 0.1
say record-300 lowtail host record --duration 4s -o /tmp/300.bin
kill $lab
say as-it-was predict 1000
for limit in 0 300; do
	say predicted-$limit predict 1000 --ratelimit ${limit}us
	say measured-$limit predict $limit
done
exit 0
