#!/bin/busybox sh
# The first process of a PV guest: a loop.
while :; do :; done
