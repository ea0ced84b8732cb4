#!/bin/busybox sh
# In dom0: two guests on pCPU 1, then what lowtail says of them. Sections are told apart by `=== NAME` and `--- CODE`. Guests need not have booted:
# a kernel that boots computes.
say() {
	name=$1
	shift
	echo "=== $name"
	"$@" 2>&1
	echo "--- $?"
}

# A guest NAME of WEIGHT.
guest() {
	cat >"/tmp/$1.cfg" <<-END
		type = "pv"
		name = "$1"
		kernel = "/guest/vmlinux"
		ramdisk = "/also/initrd"
		memory = 96
		vcpus = 1
		cpus = "1"
		cpu_weight = $2
		extra = "quiet"
		vif = ["mac=00:16:3e:00:00:0$3,script=/bin/true"]
	END
	xl create -q "/tmp/$1.cfg"
}

say alone lowtail host observe --once --interval 200ms
guest web 256 1
guest batch 512 2
say record lowtail host record --duration 100ms -o /tmp/x.bin
say latency lowtail trace latency /tmp/x.bin
say observe lowtail host observe --once --interval 200ms
say doctor lowtail host doctor
say observe-json lowtail host observe --once --interval 100ms --json
say vms lowtail host vms
say vms-json lowtail host vms --json
say wrong-option lowtail host record --duration 1s --vm a=1 -o /tmp/z.bin
rm /bin/xl
say no-xl lowtail host vms
exit 0
