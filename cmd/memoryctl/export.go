package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// exportTries is how often the export to a file begins, where the memory is changed while it runs.
const exportTries = 3

func (c *cli) exportCommand() *cobra.Command {
	var force, allowChanges bool
	cmd := &cobra.Command{
		Use:   "export FILE|-",
		Short: "Write a whole memory to a tar archive",
		Long: `Export writes all files and directories of a namespace to FILE as a tar archive,
gzipped where the name ends in .gz or .tgz, or to standard output for -. The
names in it begin with memories/. Settings of the namespace are not in it.

An archive has the memory as it was at one moment. Where the memory is changed
meanwhile, export begins again, and gives up (status 1) after 3 times. Standard
output cannot begin again: the archive there is complete, but mixes old and new,
and the status is 1. --allow-changes takes a mixed archive for good, and says on
standard error what changed. Each single file is whole in any case.

FILE appears when it is complete and on disk.`,
		Example: `  memoryctl export memory.tar.gz
  memoryctl export -n acme/user-42 user-42.tar
  memoryctl export - | tar tv
  memoryctl export - | memoryctl import -n copy -`,
		GroupID: groupFiles,
		Args:    arguments(1, 1),
		PreRun: func(*cobra.Command, []string) {
			c.retryBudget = client.DefaultRetryBudget // a restart in the middle is no reason to begin again
		},
		RunE: c.call(func(ctx context.Context, m *client.Client, args []string) error {
			e := exporter{c: c, m: m}
			if args[0] == "-" {
				return e.toStdout(ctx, allowChanges)
			}
			return e.toFile(ctx, args[0], force, allowChanges)
		}),
	}
	cmd.Flags().BoolVar(&force, "force", false, "replace FILE if it is there")
	cmd.Flags().BoolVar(&allowChanges, "allow-changes", false, "accept that the memory changes during the export")
	return cmd
}

// exported says what is in an archive. It is the output for programs.
type exported struct {
	Namespace   string   `json:"namespace"`
	File        string   `json:"file"`
	Revision    int64    `json:"revision"` // when the export began
	Files       int64    `json:"files"`
	Directories int64    `json:"directories"` // without /memories
	Bytes       int64    `json:"bytes"`       // of all files
	Mixed       bool     `json:"mixed"`       // the memory was changed meanwhile
	Changed     []string `json:"changed"`     // files that changed after they were listed
	Gone        []string `json:"gone"`        // files that were listed and then gone
	Damaged     []string `json:"damaged"`     // files that could not be read and are not in the archive
}

// errChanged ends an export during which the memory was changed.
var errChanged = errors.New("the memory was changed during the export")

type exporter struct {
	c *cli
	m *client.Client
	// mix goes on where the memory was changed; otherwise that is errChanged.
	mix bool

	done     exported
	tar      *tar.Writer
	content  bytes.Buffer // of one file
	progress *progress
}

func (e *exporter) toStdout(ctx context.Context, allowChanges bool) error {
	switch {
	case e.c.isTerminal(e.c.stdout):
		return usageErrorf("an archive is nothing for a terminal: memoryctl export FILE")
	case e.c.output == outputJSON:
		return usageErrorf("export to standard output has no -o json")
	}
	e.mix = true // what was written cannot be taken back
	if err := e.export(ctx, e.c.stdout); err != nil {
		return err
	}
	e.warn()
	if e.done.Mixed && !allowChanges || len(e.done.Damaged) > 0 {
		return errErrorResult
	}
	return nil
}

func (e *exporter) toFile(ctx context.Context, name string, force, allowChanges bool) error {
	file, err := createPending(name, force)
	if err != nil {
		return err
	}
	defer file.discard()
	for try := 1; ; try++ {
		e.mix = allowChanges && try == exportTries
		err := e.exportCompressed(ctx, file)
		if err == nil {
			break
		}
		if !errors.Is(err, errChanged) {
			return err
		}
		if try == exportTries {
			e.c.complain("the memory was changed during each of %d exports, and nothing was written; "+
				"--allow-changes takes an archive that mixes old and new", exportTries)
			return errErrorResult
		}
		if err := file.restart(); err != nil {
			return err
		}
	}
	if err := file.commit(); err != nil {
		return err
	}
	e.done.File = name
	e.warn()
	if err := e.printDone(name); err != nil {
		return err
	}
	if len(e.done.Damaged) > 0 {
		return errErrorResult
	}
	return nil
}

func (e *exporter) printDone(name string) error {
	if e.c.output == outputJSON {
		return e.c.printObject(e.done)
	}
	c := e.c
	return c.print(fmt.Sprintf("Exported %s and %s (%s) of %s to %s, revision %d\n",
		count(e.done.Files, "file", "files"), count(e.done.Directories, "directory", "directories"),
		formatSize(e.done.Bytes), e.done.Namespace, name, e.done.Revision))
}

func (e *exporter) exportCompressed(ctx context.Context, file *pendingFile) error {
	if !strings.HasSuffix(file.name, ".gz") && !strings.HasSuffix(file.name, ".tgz") {
		return e.export(ctx, file)
	}
	w := gzip.NewWriter(file)
	if err := e.export(ctx, w); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	return nil
}

// export writes the whole archive.
func (e *exporter) export(ctx context.Context, w io.Writer) error {
	e.done = exported{Namespace: e.c.namespace, Changed: []string{}, Gone: []string{}, Damaged: []string{}}
	e.tar = tar.NewWriter(w)
	root, err := withinRate(ctx, func() (*memoryv1.ViewResponse, error) {
		return e.m.View(ctx, &memoryv1.ViewRequest{Namespace: e.c.namespace, Path: rootPath})
	})
	switch {
	case err != nil:
		return err
	case root.GetResult().GetIsError():
		return e.c.printResult(root)
	}
	e.done.Revision = root.GetRevision()
	if e.done.Revision == 0 {
		e.c.complain("nothing was ever written to namespace %s; the archive is empty", e.c.namespace)
	}
	e.progress = e.c.startProgress("Exporting", root.GetEntry().GetSizeBytes())
	defer e.progress.finish()
	if err := e.writeHeader(root.GetEntry(), rootPath, 0); err != nil {
		return err
	}
	for token, first := "", true; first || token != ""; first = false {
		page, err := withinRate(ctx, func() (*memoryv1.ListResponse, error) {
			return e.m.List(ctx, &memoryv1.ListRequest{Namespace: e.c.namespace, Path: rootPath, PageToken: token})
		})
		switch {
		case err != nil:
			return err
		case page.GetResult().GetIsError():
			return e.c.printResult(page)
		}
		if err := e.check(page.GetRevision()); err != nil {
			return err
		}
		for _, entry := range page.GetEntries() {
			if err := e.exportEntry(ctx, entry); err != nil {
				return err
			}
		}
		token = page.GetNextPageToken()
	}
	if err := e.tar.Close(); err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	return nil
}

// check compares the revision of an answer with that of the first one. All answers of one revision are of one moment.
func (e *exporter) check(revision int64) error {
	if revision == e.done.Revision {
		return nil
	}
	e.done.Mixed = true
	if !e.mix {
		return errChanged
	}
	return nil
}

func (e *exporter) exportEntry(ctx context.Context, listed *memoryv1.Entry) error {
	if listed.GetKind() == memoryv1.EntryKind_ENTRY_KIND_DIRECTORY {
		e.done.Directories++
		return e.writeHeader(listed, listed.GetPath(), 0)
	}
	header, err := e.read(ctx, listed.GetPath())
	if status.Code(err) == codes.DataLoss { // What can still be read is all the more wanted.
		e.done.Damaged = append(e.done.Damaged, listed.GetPath())
		return nil
	}
	if err != nil {
		return err
	}
	if header == nil {
		e.done.Gone = append(e.done.Gone, listed.GetPath())
		return nil
	}
	if header.GetEntry().GetSha256() != listed.GetSha256() {
		e.done.Changed = append(e.done.Changed, listed.GetPath())
	}
	// The file as it was read is what goes in, with its own size and time, whatever was listed.
	if err := e.writeHeader(header.GetEntry(), listed.GetPath(), int64(e.content.Len())); err != nil {
		return err
	}
	e.done.Files++
	e.done.Bytes += int64(e.content.Len())
	e.progress.add(e.content.Len())
	if _, err := e.content.WriteTo(e.tar); err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	return nil
}

// read reads a file that was listed into e.content. It returns nil where the file is gone by now.
func (e *exporter) read(ctx context.Context, path string) (*memoryv1.GetHeader, error) {
	header, err := withinRate(ctx, func() (*memoryv1.GetHeader, error) {
		ctx, cancel := context.WithTimeout(ctx, e.c.timeout)
		defer cancel()
		e.content.Reset()
		return e.m.Get(ctx, &memoryv1.GetRequest{Namespace: e.c.namespace, Path: path}, &e.content)
	})
	switch {
	case status.Code(err) == codes.InvalidArgument: // a directory has its name now
		e.done.Mixed = true
	case err != nil:
		return nil, err
	case header.GetResult().GetReason() == memoryv1.Reason_REASON_VIEW_PATH_NOT_FOUND:
		e.done.Mixed = true
	case header.GetResult().GetIsError():
		return nil, e.c.printResult(header)
	default:
		sum := sha256.Sum256(e.content.Bytes())
		if got, want := hex.EncodeToString(sum[:]), header.GetEntry().GetSha256(); got != want {
			return nil, fmt.Errorf("read %s: its bytes have the SHA-256 %s, and memoryd says %s", path, got, want)
		}
		return header, e.check(header.GetRevision())
	}
	if !e.mix {
		return nil, errChanged
	}
	return nil, nil
}

// writeHeader writes the header of an entry. Nothing in it depends on who exports, where and when: the same memory
// makes the same archive. For that, and to save a block for each file, times are whole seconds.
func (e *exporter) writeHeader(entry *memoryv1.Entry, path string, size int64) error {
	header := &tar.Header{
		Typeflag: tar.TypeReg,
		Name:     strings.TrimPrefix(path, "/"),
		Size:     size,
		Mode:     0o600,
		ModTime:  wholeSeconds(entry.GetModifiedTime()),
		Format:   tar.FormatPAX,
	}
	if entry.GetKind() != memoryv1.EntryKind_ENTRY_KIND_FILE {
		header.Typeflag, header.Mode = tar.TypeDir, 0o700
		header.Name += "/"
	}
	if err := e.tar.WriteHeader(header); err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	return nil
}

// wholeSeconds returns the time without fractions of a second; 1970 where there is none.
func wholeSeconds(t *timestamppb.Timestamp) time.Time { return time.Unix(t.GetSeconds(), 0) }

// warn says on standard error what is damaged, and what does not fit together in a mixed archive.
func (e *exporter) warn() {
	for _, path := range e.done.Damaged {
		e.c.complain("damaged, and not in the archive: %q", path)
	}
	if !e.done.Mixed {
		return
	}
	e.c.complain("the memory was changed during the export: the archive mixes old and new, and may lack files that " +
		"were renamed")
	for _, path := range e.done.Changed {
		e.c.complain("changed meanwhile: %q", path)
	}
	for _, path := range e.done.Gone {
		e.c.complain("gone meanwhile: %q", path)
	}
}

// printObject prints one object of our own as one line.
func (c *cli) printObject(object any) error {
	line, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	return c.print(string(line) + "\n")
}
