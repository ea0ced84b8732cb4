#!/bin/sh
# What tests/kernels has a guest do, with the hierarchy of control groups v1 or v2: three stand-ins for VMs on one CPU, and a policy
# that is applied and reverted. With v2 a VM is looked at before, and the policy is then kept in force by a process that is
# killed. Prints sections, each `== NAME EXIT-CODE` and what was said; NAME.err is what was said on standard error.
set -u
version=$1

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

# Each value that the policy may change, read without lowtail: files of groups; policy, nice value, slice and CPUs of threads.
values() {
	find "$groups/machine.slice" -name 'cpu.*' | grep -e weight$ -e max$ -e burst$ -e shares$ -e cfs_ |
		sort | while read -r file; do
		echo "${file#"$groups/machine.slice/"} $(cat "$file")"
	done
	for task in /proc/"$one"/task/* /proc/"$two"/task/* /proc/"$three"/task/*; do
		# proc(5): 19 is the nice value, 41 the policy; the first behind the name is 3.
		numbers=$(sed 's/.*) //' "$task/stat" | awk '{ print "nice=" $17, "policy=" $39 }')
		slice=$(awk '$1 == "se.slice" { print $3 }' "$task/sched")
		cpus=$(awk '$1 == "Cpus_allowed_list:" { print $2 }' "$task/status")
		echo "$(cat "$task/comm") $numbers slice=$slice cpus=$cpus"
	done
}

# Run time of each VM in eight seconds, and the time that passed, in microseconds.
shares() {
	usage >/tmp/first
	sleep 8
	usage | paste /tmp/first - | awk '{ print $1, $4 - $2 }'
}

usage() {
	for name in one two three; do
		case $version in
		v1) echo "$name $(($(cat "$groups/machine.slice/"*"x2d$name.scope/cpuacct.usage") / 1000))" ;;
		v2) echo "$name $(awk '$1 == "usage_usec" { print $2 }' "$groups/machine.slice/"*"x2d$name.scope/cpu.stat")" ;;
		esac
	done
	awk '{ print "time", $1 * 1000000 }' /proc/uptime
}

# Waits for FILE to have a line with WORD.
until_has() {
	tries=0
	until grep -q -e "$2" "$1" 2>/dev/null; do
		tries=$((tries + 1))
		[ $tries -lt 600 ] || { echo "no $2 in $1" >&2 && return 1; }
		sleep 0.1
	done
}

groups=/sys/fs/cgroup
if [ "$version" = v1 ]; then
	umount $groups
	mount -t tmpfs none $groups
	groups=$groups/cpu
	mkdir $groups
	mount -t cgroup -o cpu,cpuacct none $groups
fi

cat >/tmp/policy.toml <<'END'
[[vm]]
name = "one"
slice = "3ms"
vcpu_cap = "80%"

[[vm]]
name = "two"

[[vm]]
name = "three"
cap = "10%"

[workers]
weight = 200
END

# begin NAME ARGUMENT ... : a stand-in; its process is $begun.
begin() {
	name=$1
	shift
	lowtail-standin --as libvirt --name "$name" --cpu 0 "$@" >"/tmp/$name" &
	begun=$!
	until_has "/tmp/$name" pid
}

if [ "$version" = v2 ]; then
	begin web --do serve --every 2000
	section doctor lowtail host doctor --json
	section observe lowtail host observe --once --json
	kill $begun
	wait
fi

begin one --do burn --vcpus 1 --io 1
one=$begun
begin two --do burn --vcpus 2
two=$begun
begin three --do burn --vcpus 1
three=$begun

finish() {
	kill $one $two $three
	wait
	section end cat /proc/uptime
	exit 0
}

if [ "$version" = v2 ]; then
	section vms lowtail host vms --json
	section plan lowtail host plan /tmp/policy.toml --json
	section plan-watch lowtail host plan /tmp/policy.toml --watch --json
fi
section before values
section apply lowtail host apply /tmp/policy.toml --no-look
section applied values
[ "$version" = v2 ] || section shares shares
section status lowtail host status --no-look
section revert lowtail host revert
section reverted values
[ "$version" = v2 ] || finish

lowtail host apply /tmp/policy.toml --watch --no-look >/tmp/watch 2>&1 &
watch=$!
# Two rounds: the scheduler takes those who have the class after the first.
section waited until_has /run/lowtail/host.notes '\]'
sleep 3
section kept values
section shares shares
section kept-status lowtail host status --no-look
kill -9 $watch
wait $watch
section killed-status lowtail host status --no-look
section killed-revert lowtail host revert
section restored values
section watch cat /tmp/watch
finish
