package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/seed-7f2870e1/memoryd/client"
	"github.com/seed-7f2870e1/memoryd/cmd/internal/duration"
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
)

// unreadForFlag is the setting to plan with.
const unreadForFlag = "unread-for"

func (c *cli) expiryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "expiry",
		Short: "See which files expire",
		Long: `A file expires when nobody has viewed or changed it for as long as the setting
expire-unread-after of its namespace says, and is then removed. By default it is
0s, and no file expires. Listings, exports and backups are no views.`,
		Example: `  memoryctl expiry plan --unread-for 30d                    what would go
  memoryctl namespace set NAME --expire-unread-after=30d    let it go
  memoryctl pin /memories/rules.md                          but keep this`,
		GroupID: groupAdmin,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(c.expiryPlanCommand())
	return cmd
}

func (c *cli) expiryPlanCommand() *cobra.Command {
	var unreadFor, within time.Duration
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "List the files that expire, and remove none of them",
		Long: `Plan lists the files of the memory that have expired, and so are about to be
removed, the first to go at the top. It removes nothing. With --unread-for it
shows what would go under another setting than the one in force; with --within
also what goes later, if nobody views or changes it. Times are in UTC. VIEWED is
exact to the hour: the file may have been viewed once more within an hour after
it, and expires as if it were. A DURATION is one such as 30d, 12h or 30d12h.`,
		Example: `  memoryctl expiry plan --unread-for 30d
  memoryctl -n acme/user-42 expiry plan --within 7d
  memoryctl expiry plan -o json | jq -r '.files[].entry.path'`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Var((*duration.Value)(&unreadFor), unreadForFlag,
		"plan with this `DURATION`, such as 30d, instead of the setting in force")
	flags.Var((*duration.Value)(&within), "within", "list what expires within this `DURATION` from now too, such as 7d")
	for _, name := range []string{unreadForFlag, "within"} {
		flags.Lookup(name).DefValue = "" // or the help would show one
	}
	cmd.RunE = c.call(func(ctx context.Context, m *client.Client, _ []string) error {
		req := &memoryv1.PlanExpiryRequest{Namespace: c.namespace}
		if flags.Changed(unreadForFlag) {
			if unreadFor <= 0 {
				return usageErrorf("--unread-for %s: want more than 0, for example 30d", unreadFor)
			}
			req.ExpireUnreadAfter = durationpb.New(unreadFor)
		}
		if within < 0 {
			return usageErrorf("--within %s: want 0 or more, for example 7d", within)
		}
		if within > 0 {
			req.ExpireBefore = timestamppb.New(time.Now().Add(within))
		}
		plan, err := planExpiry(ctx, m, req)
		switch {
		case err != nil && refusedField(err) == "expire_unread_after":
			return usageErrorf("--%s %s: %s", unreadForFlag, unreadFor, unreadForRule(err))
		case err != nil:
			return err
		case c.output == outputJSON:
			return c.printJSON(plan)
		case len(plan.GetFiles()) > 0:
			return c.print(expiryTable(plan.GetFiles()))
		}
		return c.explainNoExpiry(ctx, m, req)
	})
	return cmd
}

// refusedField returns the field of a request for which the service refused the request, "" for other errors.
func refusedField(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && status.Code(err) == codes.InvalidArgument {
			return info.GetMetadata()["field"]
		}
	}
	return ""
}

// unreadForRule says what --unread-for must be. The service speaks of the setting, which may be 0s too.
func unreadForRule(err error) string {
	message := status.Convert(err).Message()
	if _, rule, ok := strings.Cut(message, "; "); ok {
		message = rule
	}
	return strings.Replace(message, "0s (never), or ", "", 1)
}

// planExpiry returns the pages of a plan as one, the first to expire at the top.
func planExpiry(ctx context.Context, m *client.Client, req *memoryv1.PlanExpiryRequest) (
	*memoryv1.PlanExpiryResponse, error,
) {
	all := &memoryv1.PlanExpiryResponse{}
	for first := true; first || req.GetPageToken() != ""; first = false {
		page, err := m.PlanExpiry(ctx, req)
		if err != nil {
			return nil, err
		}
		all.Files = append(all.Files, page.GetFiles()...)
		req.PageToken = page.GetNextPageToken()
	}
	slices.SortStableFunc(all.Files, func(a, b *memoryv1.ExpiringFile) int {
		return a.GetExpireTime().AsTime().Compare(b.GetExpireTime().AsTime())
	})
	return all, nil
}

func expiryTable(files []*memoryv1.ExpiringFile) string {
	var b strings.Builder
	w := newTable(&b)
	row(w, "PATH", "SIZE", "VIEWED", "CHANGED", "EXPIRES")
	size := int64(0)
	for _, f := range files {
		e := f.GetEntry()
		size += e.GetSizeBytes()
		row(w, e.GetPath(), formatSize(e.GetSizeBytes()), formatTime(f.GetViewedTime()), formatTime(e.GetModifiedTime()),
			formatTime(f.GetExpireTime()))
	}
	must(w.Flush()) // a strings.Builder takes everything
	fmt.Fprintf(&b, "\n%s, %s\n", count(int64(len(files)), "file", "files"), formatSize(size))
	return b.String()
}

// explainNoExpiry says why a plan is empty.
func (c *cli) explainNoExpiry(ctx context.Context, m *client.Client, req *memoryv1.PlanExpiryRequest) error {
	if req.GetExpireUnreadAfter() == nil {
		resp, err := m.GetNamespace(ctx, &memoryv1.GetNamespaceRequest{Namespace: c.namespace})
		if err != nil {
			return err
		}
		if resp.GetNamespace().GetEffectiveSettings().GetExpireUnreadAfter().AsDuration() == 0 {
			return c.print("Nothing expires: expire-unread-after is 0s. To see what would go: memoryctl expiry plan " +
				"--unread-for 30d\n")
		}
	}
	if req.GetExpireBefore() != nil {
		return c.print("No file expires before " + formatTime(req.GetExpireBefore()) + ".\n")
	}
	return c.print("No file has expired.\n")
}
