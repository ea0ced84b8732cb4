#!/bin/sh
# libvirtd.sh DIR: a libvirtd of its own, for tests; first in namespaces of its own for mounts, processes and the
# network (unshare --mount --pid --net --fork --mount-proc), so that nothing of the host's libvirt is touched and
# everything ends with this shell, which also reaps what libvirtd leaves.
set -eu
dir=$1

for place in /run /var/lib /var/log /var/cache /etc/libvirt; do
	mount -t tmpfs none "$place"
done

# libvirtd does not start without this user, which another package makes.
for file in passwd group; do
	cp "/etc/$file" "$dir/$file"
done
echo 'libvirt-qemu:x:64055:64055::/:/bin/false' >>"$dir/passwd"
echo 'libvirt-qemu:x:64055:' >>"$dir/group"
for file in passwd group; do
	mount --bind "$dir/$file" "/etc/$file"
done

cat >"$dir/libvirtd.conf" <<END
unix_sock_dir = "$dir"
auth_unix_rw = "none"
auth_unix_ro = "none"
log_outputs = "3:stderr"
END
# Only what is looked at: the other controllers belong to the host.
cat >/etc/libvirt/qemu.conf <<END
security_driver = "none"
user = "root"
group = "root"
cgroup_controllers = [ "cpu", "cpuset", "cpuacct" ]
namespaces = []
stdio_handler = "file"
remember_owner = 0
END

libvirtd --config "$dir/libvirtd.conf" --pid-file "$dir/pid" &
wait $!
