#!/bin/busybox sh
# In dom0: two guests on pCPU 1, what lowtail says of them, and what it changes for a server beside a loop. Sections are told apart by `=== NAME` and `--- CODE`. Guests need not have booted:
# a kernel that boots computes.
say() {
	name=$1
	shift
	echo "=== $name"
	"$@" 2>&1
	code=$?
	echo "--- $code"
}

# A guest NAME of WEIGHT, with the last digit of its address, and what it runs.
guest() {
	cat >"/tmp/$1.cfg" <<-END
		type = "pv"
		name = "$1"
		kernel = "/guest/vmlinux"
		ramdisk = "/also/$4"
		memory = 96
		vcpus = 1
		cpus = "1"
		cpu_weight = $2
		extra = "console=hvc0 quiet cryptomgr.notests=1 ipv6.disable=1"
		vif = ["mac=00:16:3e:00:00:0$3,script=/bin/true"]
	END
	xl create -q "/tmp/$1.cfg"
}

# All that a policy may change, without what changes by itself.
dump() {
	xl sched-credit2
	xl vcpu-list | awk '{ $4 = $5 = $6 = ""; print }'
}

say alone lowtail host observe --once --interval 200ms
guest web 256 1 loop
guest batch 512 2 loop
say record lowtail host record --duration 100ms -o /tmp/x.bin
say latency lowtail trace latency /tmp/x.bin
say observe lowtail host observe --once --interval 200ms
say doctor lowtail host doctor
say observe-json lowtail host observe --once --interval 100ms --json
say vms lowtail host vms
say vms-json lowtail host vms --json
say wrong-option lowtail host record --duration 1s --vm a=1 -o /tmp/z.bin
say list xl list -v

# A server that sleeps by chance beside a loop, which waits meanwhile until it has booted.
xl destroy web
xl pause batch
guest server 256 3 server
for _ in $(seq 600); do
	grep -q serving /var/log/xen/console/guest-server.log && break
	sleep 0.1
done
xl unpause batch
policy=/also/policy.toml
say plan lowtail host plan $policy
say plan-json lowtail host plan $policy --json
say before dump
say apply lowtail host apply $policy --look 500ms
say applied dump
say status lowtail host status --look 500ms
say status-json lowtail host status --json --look 500ms
say again lowtail host plan $policy
say guard lowtail host apply $policy --guard
say predict lowtail host plan $policy --predict
say declared lowtail host plan $policy --vm a=1
say revert lowtail host revert
say reverted dump
say nothing lowtail host status --no-look

# Killed after each change, with the guests asleep.
xl pause batch
xl pause server
mkdir -p /sbin
cp /also/xl.sh /sbin/xl
chmod 755 /sbin/xl
for at in 0 1 2 3 4 5 6 7 8 9; do
	echo 0 >/tmp/number
	echo $at >/tmp/at
	say kill-$at lowtail host apply $policy --no-look
	killed=$code
	echo none >/tmp/at
	say killed-$at dump
	say restore-$at lowtail host revert
	say restored-$at dump
	[ $killed != 0 ] || break
done
rm /sbin/xl

# Kept in force for a domain that comes.
lowtail host apply $policy --watch --no-look >/tmp/watch 2>&1 &
watch=$!
for _ in $(seq 100); do
	xl sched-credit2 -d server | grep -q 512 && break
	sleep 0.1
done
guest late 256 4 loop
xl pause late
for _ in $(seq 200); do
	xl sched-credit2 -d late | grep -q 128 && break
	sleep 0.1
done
say late dump
say held lowtail host status --no-look
kill $watch
wait $watch
say watch cat /tmp/watch
xl destroy late
say unwatched dump
rm /bin/xl
say no-xl lowtail host vms
exit 0
