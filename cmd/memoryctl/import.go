package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/seed-7f2870e1/memoryd/client"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// What import does with a file that the memory has.
const (
	onConflictFail      = "fail"
	onConflictSkip      = "skip"
	onConflictOverwrite = "overwrite"
)

// placeholder is the file that makes an empty directory; it is gone in the same transaction.
const placeholder = ".memoryctl-import"

func (c *cli) importCommand() *cobra.Command {
	var options importOptions
	cmd := &cobra.Command{
		Use:   "import FILE|-",
		Short: "Put the files of a tar archive into a memory",
		Long: `Import puts the files and directories of a tar archive, gzipped or not, into a
namespace: of FILE, or of standard input for -. The name memories/notes.md, as
export writes it, and notes.md both become /memories/notes.md, or a path below
--prefix. Times and permissions are not taken over.

An entry is refused, by its name and with the reason, where
  - its name is absolute and not below /memories, or has "..", a backslash or
    invisible characters in it
  - it is a link, device, pipe or sparse file, or larger than a file may be
  - its name differs only in case or in Unicode form from another one, of the
    archive or of the memory, or the archive has it twice
  - memoryd refuses it
The rest is imported, and the status is 1.

A file that the memory has is a conflict. With --on-conflict=fail nothing is
imported where there is one; standard input can be read only once, so there the
import stops at the conflict, and what came before is imported. With "skip" the
memory keeps its file, and with "overwrite" it gets that of the archive.

A FILE that is cut off or damaged is noticed before anything is imported. After
an interruption import again, with --on-conflict=skip or overwrite.`,
		Example: `  memoryctl import memory.tar.gz --dry-run
  memoryctl import -n acme/user-42 user-42.tar
  memoryctl import memory.tar --on-conflict=skip
  tar c docs | memoryctl import --prefix /memories/project -`,
		GroupID: groupFiles,
		Args:    arguments(1, 1),
		PreRun: func(*cobra.Command, []string) {
			c.retryBudget = client.DefaultRetryBudget // a restart in the middle is no reason to begin again
		},
		RunE: c.call(func(ctx context.Context, m *client.Client, args []string) error {
			return c.importArchive(ctx, m, args[0], options)
		}),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&options.onConflict, "on-conflict", onConflictFail,
		"what to do where the memory has the file: `fail|skip|overwrite`")
	flags.StringVar(&options.prefix, "prefix", rootPath, "`PATH` of the directory to import below")
	flags.BoolVar(&options.dryRun, "dry-run", false, "say what would become of each entry, and change nothing")
	must(cmd.RegisterFlagCompletionFunc("on-conflict", cobra.FixedCompletions(
		[]string{onConflictFail, onConflictSkip, onConflictOverwrite}, cobra.ShellCompDirectiveNoFileComp)))
	must(cmd.RegisterFlagCompletionFunc("prefix", cobra.NoFileCompletions))
	return cmd
}

type importOptions struct {
	onConflict string
	prefix     string
	dryRun     bool
}

func (o *importOptions) check() error {
	switch o.onConflict {
	case onConflictFail, onConflictSkip, onConflictOverwrite:
	default:
		return usageErrorf("--on-conflict %q: want fail, skip or overwrite", o.onConflict)
	}
	prefix, err := checkPrefix(o.prefix)
	if err != nil {
		return usageErrorf("--prefix %q: %v", o.prefix, err)
	}
	o.prefix = prefix
	return nil
}

// importArchive imports the archive of a file, or of standard input for "-".
func (c *cli) importArchive(ctx context.Context, m *client.Client, name string, options importOptions) error {
	if err := options.check(); err != nil {
		return err
	}
	var in io.Reader
	var file *os.File // that can be read twice
	var size int64
	if name == "-" {
		if c.isTerminal(c.stdin) {
			return usageErrorf("import - reads standard input: memoryctl import - < FILE")
		}
		stdin := c.input(ctx)
		defer func() { _ = stdin.Close() }() // never fails
		in, name = stdin, "standard input"
	} else {
		f, err := os.Open(name)
		if err != nil {
			return usageErrorf("%v", err)
		}
		defer func() { _ = f.Close() }() // it was only read
		info, err := f.Stat()
		if err != nil {
			return fmt.Errorf("look at file: %w", err)
		}
		switch {
		case info.IsDir():
			return usageErrorf("%s is a directory", name)
		case info.Mode().IsRegular():
			file, size = f, info.Size()
		}
		in = f
	}
	im := importer{c: c, m: m, importOptions: options, source: name}
	if err := im.lookAtMemory(ctx); err != nil {
		return err
	}
	if file != nil || options.dryRun {
		if err := im.plan(ctx, in); err != nil {
			return err
		}
		if options.dryRun || im.report.count(fateConflict) > 0 {
			return im.finishPlan()
		}
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("read %s again: %w", name, err)
		}
	}
	return im.finish(im.run(ctx, in, size))
}

// importer imports one archive.
type importer struct {
	c *cli
	m *client.Client
	importOptions
	source string // the name of the archive

	maxFileBytes int64
	memory       *memoryNames
	report       importReport
	last         string // the entry that was looked at last
}

// errConflict stops an import at a file that the memory has.
var errConflict = errors.New("conflict")

// lookAtMemory reads what the memory has, and how large a file of it may be.
func (im *importer) lookAtMemory(ctx context.Context) error {
	ns, err := im.m.GetNamespace(ctx, &memoryv1.GetNamespaceRequest{Namespace: im.c.namespace})
	if err != nil {
		return err
	}
	im.maxFileBytes = min(ns.GetNamespace().GetEffectiveSettings().GetMaxFileBytes(), maxFileBytes)
	list, err := im.c.listAll(ctx, im.m, rootPath)
	switch {
	case err != nil:
		return err
	case list.GetResult().GetIsError():
		return im.c.printResponse(list)
	}
	im.memory = newMemoryNames(list.GetEntries())
	return nil
}

// plan reports what an import would do.
func (im *importer) plan(ctx context.Context, r io.Reader) error {
	plan, err := im.each(ctx, r, &progress{}, func(p planned, _ *tar.Header, _ *archive) error {
		switch {
		case !p.exists:
			im.report.add(fateCreated, p.path)
		case im.onConflict == onConflictOverwrite:
			im.report.add(fateOverwritten, p.path)
		default:
			im.report.add(im.conflict(), p.path)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, dir := range plan.emptyDirectories() {
		im.report.add(fateCreated, dir+"/")
	}
	return nil
}

// conflict is the fate of a file that the memory has and keeps.
func (im *importer) conflict() fate {
	if im.onConflict == onConflictSkip {
		return fateSkipped
	}
	return fateConflict
}

// run imports the archive. Size is that of the archive, or 0.
func (im *importer) run(ctx context.Context, r io.Reader, size int64) error {
	progress := im.c.startProgress("Importing", size)
	defer progress.finish()
	var content []byte
	plan, err := im.each(ctx, r, progress, func(p planned, h *tar.Header, a *archive) error {
		if p.exists && im.onConflict != onConflictOverwrite {
			return im.keep(p.path)
		}
		content = slices.Grow(content[:0], int(h.Size))[:h.Size]
		if err := a.read(content); err != nil {
			return im.readError(err)
		}
		return im.put(ctx, p, content)
	})
	if err != nil {
		return err
	}
	for _, dir := range plan.emptyDirectories() {
		im.last = dir
		if err := im.makeDirectory(ctx, dir); err != nil {
			return err
		}
	}
	im.report.complete = true
	return nil
}

// each plans all entries of an archive, reports those that are refused, and gives fn the files.
func (im *importer) each(
	ctx context.Context, r io.Reader, progress *progress, fn func(planned, *tar.Header, *archive) error,
) (*importPlan, error) {
	im.report = importReport{namespace: im.c.namespace, dryRun: im.dryRun}
	im.last = ""
	plan := &importPlan{
		prefix: im.prefix, maxFileBytes: im.maxFileBytes, memory: im.memory, claims: make(map[string]*claim),
	}
	a, err := openArchive(&sourceReader{ctx: ctx, r: r, progress: progress})
	if err != nil {
		return nil, im.readError(err)
	}
	for {
		h, err := a.next()
		if errors.Is(err, io.EOF) {
			return plan, nil
		}
		if err != nil {
			return nil, im.readError(err)
		}
		im.last = h.Name
		p, err := plan.entry(h)
		switch {
		case err != nil:
			return nil, im.readError(err)
		case p.refusal != "":
			im.report.refuse(h.Name, p.refusal)
		case p.path != "":
			if err := fn(p, h, a); err != nil {
				return nil, err
			}
		}
	}
}

func (im *importer) readError(err error) error { return fmt.Errorf("read %s: %w", im.source, err) }

// keep reports a file that the memory has and keeps, and ends the import where that is a failure.
func (im *importer) keep(path string) error {
	im.report.add(im.conflict(), path)
	if im.onConflict == onConflictFail {
		return errConflict
	}
	return nil
}

// put stores a file. One that is thought to be new must be new, or it is a conflict after all.
func (im *importer) put(ctx context.Context, p planned, content []byte) error {
	header := &memoryv1.PutHeader{Namespace: im.c.namespace, Path: p.path}
	if !p.exists {
		header.IfRevision = proto.Int64(0)
	}
	resp, err := withinRate(ctx, func() (*memoryv1.PutResponse, error) { return im.putOnce(ctx, header, content) })
	if err != nil {
		return err
	}
	if resp.GetResult().GetReason() == memoryv1.Reason_REASON_PRECONDITION_FAILED && !p.exists {
		if im.onConflict != onConflictOverwrite {
			return im.keep(p.path)
		}
		p.exists = true
		return im.put(ctx, p, content)
	}
	switch {
	case resp.GetResult().GetIsError():
		im.report.refuse(im.last, resultText(resp.GetResult()))
	case p.exists:
		im.report.add(fateOverwritten, p.path)
	default:
		im.report.add(fateCreated, p.path)
	}
	return nil
}

func (im *importer) putOnce(
	ctx context.Context, header *memoryv1.PutHeader, content []byte,
) (*memoryv1.PutResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, im.c.timeout)
	defer cancel()
	return im.m.Put(ctx, header, bytes.NewReader(content))
}

// makeDirectory makes an empty directory. The service has no command for that, but makes the directories above a file,
// and keeps them when the file goes; in one transaction nobody ever sees the file.
func (im *importer) makeDirectory(ctx context.Context, dir string) error {
	file := path.Join(dir, placeholder)
	req := &memoryv1.ApplyRequest{Namespace: im.c.namespace, Commands: []*memoryv1.ApplyCommand{
		// Only where there is no such file: it would be somebody else's.
		{Input: toolInput("create", file), IfRevision: proto.Int64(0)},
		{Input: toolInput("delete", file)},
	}}
	resp, err := withinRate(ctx, func() (*memoryv1.ApplyResponse, error) { return im.m.Apply(ctx, req) })
	switch {
	case err != nil:
		return err
	case resp.GetResult().GetIsError():
		im.report.refuse(dir+"/", resultText(resp.GetResult()))
	default:
		im.report.add(fateCreated, dir+"/")
	}
	return nil
}

func toolInput(command, path string) string {
	input := map[string]string{"command": command, "path": path}
	if command == "create" {
		input["file_text"] = ""
	}
	text, err := json.Marshal(input)
	must(err) // strings can always be encoded
	return string(text)
}

// resultText returns the texts of a result as one line.
func resultText(result *memoryv1.ToolResult) string {
	var texts []string
	for _, content := range result.GetContent() {
		texts = append(texts, strings.TrimPrefix(content.GetText(), "Error: "))
	}
	return strings.Join(texts, " ")
}

// finishPlan prints the report of an import that was only planned: it was to be, or there are conflicts.
func (im *importer) finishPlan() error {
	im.report.complete = im.dryRun
	if !im.dryRun {
		im.report.keepFailures()
	}
	if err := im.c.printImport(&im.report); err != nil {
		return err
	}
	if !im.dryRun {
		im.c.complain("nothing was imported; see --on-conflict")
	}
	return im.report.err()
}

// finish prints the report of an import that err ended, and how far it came.
func (im *importer) finish(err error) error {
	if printErr := im.c.printImport(&im.report); printErr != nil {
		return printErr
	}
	switch {
	case err == nil:
		return im.report.err()
	case errors.Is(err, errConflict):
		im.c.complain("the import stopped there; what came before is imported")
		return im.report.err()
	}
	if im.last != "" {
		im.c.complain("the import is not complete: it came as far as %q", shorten(im.last))
	}
	return err
}
