#!/bin/busybox sh
# In place of xl: whoever runs it is killed when the change of the number in /tmp/at has been made.
case "$1 $*" in
vcpu-pin*|sched-credit2*" -w "*|sched-credit2*" -c "*|sched-credit2*" -r "*)
	number=$(cat /tmp/number)
	echo $((number + 1)) >/tmp/number
	if [ "$number" = "$(cat /tmp/at)" ]; then
		/bin/xl "$@"
		kill -9 $PPID
		exit 1
	fi
	;;
esac
exec /bin/xl "$@"
