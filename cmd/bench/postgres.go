package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-7f2870e1/memoryd/cmd/bench/internal/child"
)

// postgresUser is who runs PostgreSQL where root measures: it refuses root.
const postgresUser = "postgres"

// startPostgres starts a PostgreSQL with the durability that it has by itself. Nothing is counted of it, since it is
// many processes.
func (b *bench) startPostgres(ctx context.Context) (*peer, error) {
	initdb, err := findPostgres("initdb")
	if err != nil {
		return nil, err
	}
	program, err := findPostgres("postgres")
	if err != nil {
		return nil, err
	}
	if err := b.version(ctx, namePostgres, program, "--version"); err != nil {
		return nil, err
	}
	name, dir, err := b.newDir("postgres")
	if err != nil {
		return nil, err
	}
	as, err := asPostgres(dir)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	command := slices.Concat(as, []string{
		initdb, "--pgdata", data, "--auth", "trust", "--username", postgresUser, "--no-sync",
	})
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // It was found in PATH.
	if output, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, output)
	}
	address, err := child.FreeAddress()
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.New(ctx, fmt.Sprintf("postgres://%s@%s/postgres?sslmode=disable&pool_max_conns=%d",
		postgresUser, address, maxCallers))
	if err != nil {
		return nil, err
	}
	_, err = b.startPeer(ctx, name, dir, slices.Concat(as, []string{
		program, "-D", data, "-c", "listen_addresses=" + host, "-c", "port=" + port, "-c", "unix_socket_directories=",
		"-c", "max_connections=" + strconv.Itoa(maxCallers+10),
	}), await(address, func(ctx context.Context) error {
		_, err := pool.Exec(ctx, "CREATE TABLE files (path text PRIMARY KEY, body text NOT NULL)")
		return err
	}))
	b.onStop(func() error { pool.Close(); return nil }) // before the process: it waits for those who are connected
	if err != nil {
		return nil, err
	}
	return &peer{
		name: namePostgres,
		get: func(ctx context.Context, path string) error {
			var body string
			return pool.QueryRow(ctx, "SELECT body FROM files WHERE path = $1", path).Scan(&body)
		},
		put: func(ctx context.Context, path, text string) error {
			_, err := pool.Exec(ctx, "INSERT INTO files (path, body) VALUES ($1, $2)", path, text)
			return err
		},
	}, nil
}

// findPostgres returns the path of a program of PostgreSQL: that in PATH, or where Debian has it.
func findPostgres(name string) (string, error) {
	path, err := installed(name)
	if err == nil {
		return path, nil
	}
	found, globErr := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if globErr != nil || len(found) == 0 {
		return "", errors.Join(err, globErr)
	}
	return found[len(found)-1], nil
}

// asPostgres gives dir to the user that PostgreSQL runs as, and returns what its commands begin with.
func asPostgres(dir string) ([]string, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	setpriv, err := installed("setpriv")
	if err != nil {
		return nil, err
	}
	u, err := user.Lookup(postgresUser)
	if err != nil {
		return nil, fmt.Errorf("%w for root: %w", errNotInstalled, err)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return nil, err
	}
	return []string{setpriv, "--reuid", u.Uid, "--regid", u.Gid, "--clear-groups"}, os.Chown(dir, uid, gid)
}
