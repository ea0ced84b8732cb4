#!/bin/sh
# What tests/vhost has a guest do: two stand-ins for VMs on one CPU, each with a tap on a bridge and the kernel's own vhost between, ask and
# answer; alone, and beside one that computes; by itself, or with `lowtail host observe`. Prints sections, each `== NAME HOW` and lines: run time
# and runs of the workers, JSON of the stand-in that asks, JSON of the observer.
set -eu
seconds=$1

modprobe tun
modprobe bridge
modprobe vhost_net
# Nothing but what the stand-ins send.
echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6
echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
# Not the shell's own ip, which knows no taps.
/bin/ip link add br0 type bridge
/bin/ip link set dev br0 up
for tap in tapa tapb; do
	/bin/ip tuntap add dev $tap mode tap vnet_hdr
	/bin/ip link set dev $tap master br0 up
done

# $1, run time in nanoseconds and number of runs of the vhost worker of process $2 (schedstat of proc(5)). Starts no program, which would
# take the CPU from those that are measured.
worker() {
	for task in /proc/"$2"/task/*; do
		read -r name <"$task/comm"
		case $name in vhost-*) ;; *) continue ;; esac
		read -r ran _ runs <"$task/schedstat"
		echo "worker $1 $ran $runs"
	done
}

# play HOW NAME ASK [beside]
play() {
	echo "== $2 $1"
	lowtail-standin --name b --nic tapb >/tmp/b &
	b=$!
	lowtail-standin --name a --nic tapa --ask "$3" >/tmp/a &
	a=$!
	loop=
	[ $# -lt 4 ] || {
		lowtail-standin --name loop --do burn >/tmp/loop &
		loop=$!
	}
	# Until all have begun, which takes programs time.
	sleep 0.5
	if [ "$1" = plain ]; then
		worker a $a
		worker b $b
		sleep "$seconds"
		worker a $a
		worker b $b
	else
		lowtail host observe --once --json --interval "${seconds}s" || [ $? = 1 ]
	fi
	kill $a $b $loop
	wait
	tail -1 /tmp/a
}

play plain small tapb:~1000:56
play plain long tapb:~1000:1400
play plain many tapb:4000:56:16
play plain beside tapb:~1000:56 loop
play observed small tapb:~1000:56
play observed beside tapb:~1000:56 loop
