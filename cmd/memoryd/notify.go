package main

import (
	"context"
	"log/slog"
	"os"
	"strings"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/seed-7f2870e1/memoryd/server"
)

// follow tells systemd what the service does, in the order in which it does it, and reloads it at every signal, until
// ctx is done. A signal that comes before the service serves counts once it does.
func follow(ctx context.Context, signals <-chan os.Signal, srv *server.Server, logger *slog.Logger) {
	defer notify(ctx, logger, daemon.SdNotifyStopping, "STATUS=Stopping")
	select {
	case <-ctx.Done():
		return
	case <-srv.Started():
	}
	status := "STATUS=Serving on " + addressList(srv)
	notify(ctx, logger, daemon.SdNotifyReady, status)
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
			logger.InfoContext(ctx, "reloading on SIGHUP")
			// Type=notify-reload wants the time, too.
			notify(ctx, logger, daemon.SdNotifyReloading, strings.TrimSpace(daemon.SdNotifyMonotonicUsec()), "STATUS=Reloading")
			outcome := ""
			if srv.Reload(ctx) != nil { // The log has been told.
				outcome = "; the last reload failed, see the log"
			}
			notify(ctx, logger, daemon.SdNotifyReady, status+outcome)
		}
	}
}

// notify sends assignments to the service manager where there is one that wants them (sd_notify).
func notify(ctx context.Context, logger *slog.Logger, assignments ...string) {
	if _, err := daemon.SdNotify(false, strings.Join(assignments, "\n")); err != nil {
		logger.WarnContext(ctx, "systemd was not notified", "error", err)
	}
}

// addressList is where the service serves, as people read it.
func addressList(srv *server.Server) string {
	var addresses []string
	for _, addr := range srv.Addrs() {
		addresses = append(addresses, addr.String())
	}
	return strings.Join(addresses, ", ")
}
