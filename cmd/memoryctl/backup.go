package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

func (c *cli) backupCommand() *cobra.Command {
	var rate string
	var force bool
	cmd := &cobra.Command{
		Use:   "backup FILE|-",
		Short: "Back up all memories of the service while it runs",
		Long: `Backup writes all namespaces, as they are at one moment, to FILE, or to standard
output for -. Nobody has to wait for that, however slow it is. "memoryd restore"
takes the file, and "memoryd verify" checks it.

FILE appears when it is complete, has its checksum and is on disk; its mode is
0600. On standard output a backup is complete only if the exit status is 0, and
restore refuses one that was cut off. A damaged store makes a damaged backup,
which only verify can tell. --timeout does not apply.

It needs the rights admin and read on all namespaces.`,
		Example: `  memoryctl backup memories.backup
  memoryctl backup --rate 10MB/s memories.backup
  memoryctl backup - | ssh elsewhere 'cat > memories.backup'`,
		GroupID: groupAdmin,
		Args:    arguments(1, 1),
		RunE: c.call(func(ctx context.Context, m *client.Client, args []string) error {
			c.about = "all namespaces: admin and read on **"
			bytesPerSecond, err := parseRate(rate)
			if err != nil {
				return err
			}
			b := backup{c: c, m: m, req: &memoryv1.BackupRequest{MaxBytesPerSecond: bytesPerSecond}}
			if args[0] == "-" {
				return b.toStdout(ctx)
			}
			return b.toFile(ctx, args[0], force)
		}),
	}
	cmd.Flags().StringVar(&rate, "rate", "",
		"the most to transfer in a second, such as 10MB/s: a whole `NUMBER` of B, KB, MB, GB, KiB, MiB or GiB")
	cmd.Flags().BoolVar(&force, "force", false, "replace FILE if it is there")
	return cmd
}

// backup is one backup.
type backup struct {
	c   *cli
	m   *client.Client
	req *memoryv1.BackupRequest
}

func (b *backup) toStdout(ctx context.Context) error {
	switch {
	case b.c.isTerminal(b.c.stdout):
		return usageErrorf("a backup is nothing for a terminal: memoryctl backup FILE")
	case b.c.output == outputJSON:
		return usageErrorf("backup to standard output has no -o json")
	}
	_, err := b.write(ctx, b.c.stdout)
	return err
}

func (b *backup) toFile(ctx context.Context, name string, force bool) error {
	file, err := createPending(name, force)
	if err != nil {
		return err
	}
	defer file.discard()
	size, err := b.write(ctx, file)
	if err != nil {
		return err
	}
	if err := file.commit(); err != nil {
		return err
	}
	c := b.c
	if c.output == outputJSON {
		line, err := json.Marshal(map[string]any{"file": name, "bytes": size})
		if err != nil {
			return fmt.Errorf("encode result: %w", err)
		}
		return c.print(string(line) + "\n")
	}
	return c.print(fmt.Sprintf("Wrote %s (%s)\n", name, formatSize(size)))
}

// write writes the backup, shows how far it is, and returns its size.
func (b *backup) write(ctx context.Context, w io.Writer) (size int64, err error) {
	bar := &progress{}
	var shown int64
	err = b.m.Backup(ctx, b.req, w, func(done, total int64) {
		if done == 0 {
			bar = b.c.startProgress("Backup", total)
		}
		bar.add(int(done - shown))
		shown, size = done, total
	})
	bar.finish()
	return size, err
}

var ratePattern = regexp.MustCompile(`^([1-9][0-9]{0,8})(B|[KMG]i?B)(/s)?$`)

// parseRate reads a number of bytes a second, such as 10MB/s; 0 where there is no limit.
func parseRate(rate string) (int64, error) {
	if rate == "" {
		return 0, nil
	}
	parts := ratePattern.FindStringSubmatch(rate)
	if parts == nil {
		return 0, usageErrorf("--rate %q: want a whole number with B, KB, MB, GB, KiB, MiB or GiB, for example 10MB/s", rate)
	}
	n, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return 0, usageErrorf("--rate %q: %v", rate, err)
	}
	units := map[string]int64{
		"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
	}
	return n * units[parts[2]], nil
}
