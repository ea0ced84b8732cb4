#!/bin/sh
# What tests/faults has a guest do: `memory`, where maps cannot be made, or `clock`, where the time of day jumps. Prints sections, each
# `== NAME EXIT-CODE` and what was said; NAME.err is what was said on standard error.
set -u

# section NAME COMMAND ...
section() {
	title=$1
	shift
	"$@" >/tmp/said 2>/tmp/told
	echo "== $title $?"
	cat /tmp/said
	echo
	echo "== $title.err 0"
	cat /tmp/told
	echo
}

# begin NAME ARGUMENT ... : a stand-in for a VM of libvirt's.
begin() {
	name=$1
	shift
	lowtail-standin --as libvirt --name "$name" "$@" >"/tmp/$name" &
	tries=0
	until grep -q pid "/tmp/$name"; do
		tries=$((tries + 1))
		[ $tries -lt 600 ] || exit 1
		sleep 0.1
	done
}

# All that may be changed: weights and limits of groups, the uplink's queues and filters, who schedules.
values() {
	find /sys/fs/cgroup/machine.slice -name 'cpu.*' | grep -e weight$ -e max$ | sort | while read -r file; do
		echo "$file $(cat "$file")"
	done
	[ ! -e /sys/class/net/up0 ] || /bin/tc qdisc show dev up0
	cat /sys/kernel/sched_ext/state
	ls /run/lowtail/*.ledger 2>/dev/null || :
}

# In a control group with so much memory.
limited() {
	sh -c 'echo $$ >/sys/fs/cgroup/little/cgroup.procs; exec "$@"' limited "$@"
}

refused() {
	map=$1
	shift
	LD_PRELOAD=/bin/refuse.so LOWTAIL_TEST_REFUSE=$map "$@"
}

machine='[[vm]]
name = "one"
cap = "50%"'

case $1 in
memory)
	for module in veth sch_ingress cls_bpf sch_tbf sch_htb sch_prio; do
		modprobe $module
	done
	/bin/ip link add up0 numtxqueues 1 type veth peer name far0
	/bin/ip link set up0 up
	/bin/ip link set far0 up
	begin one --do sleep
	printf 'scheduler = "sched-ext"\n%s\n' "$machine" >/tmp/insists.toml
	printf 'scheduler = "fair"\n%s\n[[uplink]]\nname = "up0"\nrate = "20Mbit/s"\n' "$machine" >/tmp/uplink.toml
	section before values
	section scheduler refused vcpus lowtail host apply /tmp/insists.toml --watch --no-look
	section scheduler-values values
	section status lowtail host status --no-look
	section tagger refused sets lowtail host apply /tmp/uplink.toml --no-look
	section tagger-values values
	section tagger-revert lowtail host revert
	section reverted values
	echo +memory >/sys/fs/cgroup/cgroup.subtree_control
	mkdir /sys/fs/cgroup/little
	echo 48M >/sys/fs/cgroup/little/memory.max
	section observe limited lowtail host observe --once --no-network --threads 57344
	section record limited lowtail host record -o /tmp/a.ltr --buffer 128 --duration 1s
	section files ls /tmp
	section fits limited lowtail host record -o /tmp/a.ltr --buffer 1 --duration 1s
	;;
clock)
	printf 'scheduler = "fair"\n%s\n[[vm]]\nname = "late"\ncap = "30%%"\n' "$machine" >/tmp/policy.toml
	begin one --do serve --every 5000 --work 300
	section before values
	lowtail host apply /tmp/policy.toml --watch --no-look >/tmp/watch 2>&1 &
	watch=$!
	lowtail host observe --json --no-network --interval 500ms --duration 14s >/tmp/seen 2>/tmp/seen.err &
	observe=$!
	lowtail host record -o /tmp/a.ltr --duration 14s >/tmp/recorded 2>&1 &
	record=$!
	sleep 5
	# Hours forwards, then days back, then before 1971.
	for at in 1767300000 1767000000 3600; do
		date -s @$at >/dev/null
		sleep 3
	done
	wait $observe
	section observe-code echo $?
	wait $record
	section record-code echo $?
	section seen cat /tmp/seen
	section info lowtail trace info /tmp/a.ltr --json
	section latency lowtail trace latency /tmp/a.ltr --json
	# A VM that comes after the jumps is found, and what is in force is known.
	begin late --do sleep
	sleep 4
	section applied values
	section status lowtail host status --no-look
	date -s @1767300000 >/dev/null
	kill -9 $watch
	wait $watch
	section revert lowtail host revert
	section reverted values
	section watch cat /tmp/watch
	;;
esac
section end cat /proc/uptime
exit 0
