#!/bin/sh
set -e

case "$1" in
configure | abort-upgrade | abort-deconfigure | abort-remove) ;;
*) exit 0 ;;
esac

systemd-sysusers memoryd.conf

# The service is enabled when it is installed, and stays as the administrator wants it afterwards. The socket is for the
# administrator to enable.
if deb-systemd-helper --quiet was-enabled memoryd.service; then
	deb-systemd-helper enable memoryd.service >/dev/null || true
else
	deb-systemd-helper update-state memoryd.service >/dev/null || true
fi
deb-systemd-helper update-state memoryd.socket >/dev/null || true

if [ -d /run/systemd/system ]; then
	systemctl --system daemon-reload >/dev/null || true
	if [ -n "$2" ]; then
		deb-systemd-invoke restart memoryd.service >/dev/null || true
	else
		deb-systemd-invoke start memoryd.service >/dev/null || true
	fi
fi
