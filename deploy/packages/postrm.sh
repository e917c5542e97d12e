#!/bin/sh
set -e

if [ -d /run/systemd/system ]; then
	systemctl --system daemon-reload >/dev/null || true
fi
if [ "$1" = purge ]; then
	if [ -x /usr/bin/deb-systemd-helper ]; then
		deb-systemd-helper purge memoryd.service memoryd.socket >/dev/null || true
	fi
	for dir in /var/lib/memoryd /var/log/memoryd; do
		if [ -d "$dir" ]; then
			echo "memoryd: $dir is left as it is; remove it if you no longer need what is in it." >&2
		fi
	done
fi
