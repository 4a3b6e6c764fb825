package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/bundle/receipt"
	"github.com/sluice-gitops/sluice/bundle/receipt/transfer"
	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
	"github.com/sluice-gitops/sluice/service/promotions"
)

func newReceipt(o IO) *cobra.Command {
	c := group(&cobra.Command{
		Use:   "receipt",
		Short: "Import what the site of an isolated environment says that it runs",
		Long: `A receipt says what runs on the clusters of an isolated environment, since when and how healthy. "sluice bundle receipt" writes it
on the environment's site. At the home of the fleet it opens the gates of the environments that come after.`,
		Example: "  sluice receipt inspect gov.receipt\n  sluice receipt import gov.receipt --signers gov-signers.yaml",
	})
	c.AddCommand(newReceiptImport(o), newReceiptInspect(o))
	return c
}

type bundleReceipt struct {
	promotionFlags
	keys        envelopeKeys
	environment string
	site        string
	file        string
}

func newBundleReceipt(o IO) *cobra.Command {
	var b bundleReceipt
	c := &cobra.Command{
		Use:   "receipt",
		Short: "Write a signed receipt of what this site runs",
		Long: `Describes what the clusters of an isolated environment run on this site: trees and source commits since when, commit statuses, the
rollout, halts and freezes with their reasons, and the last imported bundle. It holds no manifest and no secret. The receipt gets
the next number, which the branch sluice/receipts/ENV keeps; "sluice receipt import" at the home of the fleet takes it.

In a CI job with GITHUB_TOKEN, GITLAB_TOKEN or GITEA_TOKEN (SLUICE_FORGE_TOKEN overrides them), the statuses of the
cluster branches are read. Elsewhere the receipt says why they are not known.`,
		Example: "  sluice bundle receipt --environment gov --sign site.key -o gov.receipt\n  sluice bundle receipt --environment gov --site gov-east --sign site.key -o /media/stick/",
		Args:    noArgs("name the environment with --environment"),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := b.check(); err != nil {
				return err
			}
			switch {
			case b.environment == "":
				return usagef("--environment is required: the isolated environment that this site runs")
			case b.file == "":
				return usagef("name the file to write with -o")
			}
			return b.run(c.Context(), o)
		},
	}
	b.flags(c)
	b.branchFlags(c)
	b.signing.flag(c.Flags())
	b.keys.flag(c.Flags())
	f := c.Flags()
	f.StringVar(&b.environment, "environment", "", "`name` of the isolated environment")
	f.StringVar(&b.site, "site", "", "`name` of this site (default: that of the environment)")
	f.StringVarP(&b.file, "output", "o", "", "`file` to write, or a folder that ends with /")
	completeFlag(c, "output", completeNothing)
	return c
}

func (b *bundleReceipt) run(ctx context.Context, o IO) error {
	signers, err := b.keys.signers(o)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(b.file); err == nil && !strings.HasSuffix(b.file, "/") {
		return usagef("%s exists: a receipt is not written over another file", b.file)
	}
	s, trunk, err := b.open(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	order := transfer.Order{Request: b.request(s, trunk), Environment: b.environment, Site: b.site, Signers: signers}
	if order.Site == "" {
		order.Site = b.environment
	}
	if order.Request.Adapters.Statuses, err = b.statuses(ctx, o, s, trunk); err != nil {
		return err
	}
	made, err := transfer.Issue(ctx, s.Hydrator, order)
	if err != nil {
		return err
	}
	if strings.HasSuffix(b.file, "/") {
		b.file = filepath.Join(b.file, fmt.Sprintf("%s-%04d%s", b.environment, made.Receipt.Sequence, receiptSuffix))
	}
	if err := writeOnce(b.file, made.File); err != nil {
		return fmt.Errorf("receipt %d is on branch %s, but its file is not written; the next call writes receipt %d: %w", made.Receipt.Sequence,
			promote.ReceiptBranch(b.environment), made.Receipt.Sequence+1, err)
	}
	fmt.Fprintf(o.Out, "wrote %s (%s)\n", b.file, mebibytes(int64(len(made.File))))
	writeReceipt(o.Out, made.Receipt)
	return nil
}

// statuses returns the reader of commit statuses of a CI job with a token; nil elsewhere.
func (b *bundleReceipt) statuses(ctx context.Context, o IO, s *app.Session, trunk gitstore.Commit) (promote.StatusReader,
	error,
) {
	f, _, err := s.Fleet(ctx, trunk.Tree)
	if err != nil {
		return nil, err
	}
	hub, repository, impossible := (&siteOptions{statuses: 1}).forge(o.Env, s, f.Spec.Output.Repository)
	if impossible != nil {
		return nil, nil //nolint:nilerr // the receipt says that they are not known
	}
	return promotions.Statuses{Forge: hub, Repository: repository}, nil
}

// writeOnce writes a file that does not exist yet, and nothing if that fails.
func writeOnce(name string, data []byte) error {
	f, err := os.OpenFile(filepath.Clean(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // it holds no secret
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

type receiptImport struct {
	promotionFlags
	trust    envelopeTrust
	restored string
}

func newReceiptImport(o IO) *cobra.Command {
	var r receiptImport
	c := &cobra.Command{
		Use:   "import FILE|FOLDER",
		Short: "Import a receipt at the home of the fleet",
		Long: `Verifies that enough of the keys in --signers have signed the receipt, that it is of this fleet and of one of its isolated
environments, and that it is newer than the one that is here. Then it moves the branch sluice/receipts/ENV, and shows the
environment as the receipt has it. "sluice promote" afterwards opens the gates that waited for it. FILE is - for the input. Of a
folder, it imports the newest of the files NAME.receipt for each environment, because a receipt says everything that older ones
say.`,
		Example: `  sluice receipt import /media/stick/ --signers gov-signers.yaml
  sluice receipt import gov.receipt --signers gov-signers.yaml
  sluice receipt import gov.receipt --signers gov-signers.yaml --restored "the site's disk was replaced"`,
		Args: exactArgs("FILE|FOLDER"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := r.check("text", "json"); err != nil {
				return err
			}
			return r.run(c.Context(), o, args[0])
		},
	}
	r.flags(c, "text", "json")
	r.branchFlags(c)
	r.signing.flag(c.Flags())
	r.trust.flag(c.Flags())
	f := c.Flags()
	f.StringVar(&r.by, "by", "",
		"`name` of the person who imports it (default: SLUICE_USER, GITHUB_ACTOR, GITLAB_USER_LOGIN, GIT_AUTHOR_NAME, Git's user.name or USER)")
	f.StringVar(&r.restored, "restored", "",
		"`reason` to import a receipt that is not newer than the one that is here, because its site was restored from a backup")
	return c
}

func (r *receiptImport) run(ctx context.Context, o IO, name string) error {
	trust, err := r.trust.required()
	if err != nil {
		return err
	}
	files, err := receiptFiles(o, name)
	if err != nil {
		return err
	}
	by, err := r.who(ctx, o)
	if err != nil {
		return err
	}
	s, trunk, err := r.open(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	request := r.request(s, trunk)
	request.DryRun = true
	var failed error
	for _, file := range files {
		done, err := transfer.Import(ctx, s.Hydrator, file.data, transfer.Want{
			Trunk: trunk, Trust: trust, Now: time.Now(), By: by, Restored: r.restored,
		})
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", file.name, err))
			continue
		}
		printImported(o, done)
		request.Environments = append(request.Environments, done.Receipt.Environment)
	}
	if len(request.Environments) == 0 {
		return failed
	}
	list, err := promote.Look(ctx, s.Hydrator, request)
	return errors.Join(failed, r.showAll(o, list, "", err))
}

func printImported(o IO, done *transfer.Imported) {
	what := done.Receipt
	verb := "imported"
	if done.Already {
		verb = "was imported already"
	}
	fmt.Fprintf(o.Err, "receipt %d of %s %s, signed by %s\n", what.Sequence, what.Environment, verb, safetext.Line(strings.Join(done.Verdict.Names, ", ")))
	if done.Gap > 0 {
		fmt.Fprintf(o.Err, "%s before it did not come\n", hydrate.Count(int(done.Gap), "receipt"))
	}
	if done.ClockAhead > time.Minute {
		fmt.Fprintf(o.Err, "warning: the clock of the site is ahead by %s at least, or that of this machine is behind\n", done.ClockAhead)
	}
}

const receiptSuffix = ".receipt"

// receiptFile is the content of a file.
type receiptFile struct {
	name string
	data []byte
}

// receiptFiles reads a file, or those of a folder that are the newest of their environments by their own words. Of files
// that are no receipts, importing says what is wrong.
func receiptFiles(o IO, name string) ([]receiptFile, error) {
	info, err := os.Stat(name)
	if name == "-" || err != nil || !info.IsDir() {
		data, err := readReceiptFile(o, name)
		return []receiptFile{{name, data}}, err
	}
	names, err := filepath.Glob(filepath.Join(name, "*"+receiptSuffix))
	if err != nil {
		return nil, err
	}
	newest := map[string]int64{}
	byEnvironment := map[string]receiptFile{}
	for _, n := range names {
		data, err := readReceiptFile(o, n)
		if err != nil {
			return nil, err
		}
		key, sequence := n, int64(1) // a file that is none stands for itself
		if r, _, err := transfer.Inspect(data); err == nil {
			key, sequence = r.Environment, r.Sequence
		}
		if sequence > newest[key] {
			newest[key], byEnvironment[key] = sequence, receiptFile{n, data}
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has no file with a name that ends with %s", name, receiptSuffix)
	}
	var out []receiptFile
	for _, key := range slices.Sorted(maps.Keys(byEnvironment)) {
		out = append(out, byEnvironment[key])
	}
	return out, nil
}

func newReceiptInspect(o IO) *cobra.Command {
	var trust envelopeTrust
	var c common
	cmd := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Show what a receipt says, and who signed it",
		Long: `Reads a receipt. It needs no repository and no key; with --signers it says whether the receipt would be trusted. FILE is - for
the input.

Exit status: 0; 1 if it is not a receipt, or if --signers does not trust it.`,
		Example: "  sluice receipt inspect gov.receipt\n  sluice receipt inspect gov.receipt --signers gov-signers.yaml -o json",
		Args:    exactArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.check("text", "json"); err != nil {
				return err
			}
			return inspectReceipt(o, &c, trust, args[0])
		},
	}
	c.outputFlag(cmd, "text", "json")
	trust.flag(cmd.Flags())
	return cmd
}

func inspectReceipt(o IO, c *common, file envelopeTrust, name string) error {
	trust, err := file.read()
	if err != nil {
		return err
	}
	data, err := readReceiptFile(o, name)
	if err != nil {
		return err
	}
	r, sealed, err := transfer.Inspect(data)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if c.structured() {
		err = c.document(o.Out, func(w io.Writer) error { return printJSON(w, r) })
	} else {
		writeReceipt(o.Out, r)
	}
	if err != nil {
		return err
	}
	if trust == nil {
		fmt.Fprintf(o.Err, "%s, not verified: name the keys that count with --signers\n", hydrate.Count(len(sealed.Signatures), "signature"))
		return nil
	}
	verdict, err := trust.Verify(sealed, time.Now())
	for i, s := range verdict.Signatures {
		if s.Problem != "" {
			fmt.Fprintf(o.Err, "signature %d: %s\n", i+1, safetext.Line(s.Problem))
			continue
		}
		fmt.Fprintf(o.Err, "signature %d: %s\n", i+1, safetext.Line(s.By))
	}
	return err
}

func readReceiptFile(o IO, name string) ([]byte, error) {
	if name == "-" {
		return transfer.ReadFile(o.In)
	}
	if err := regular(name); err != nil {
		return nil, err
	}
	f, err := os.Open(name) //nolint:gosec // the user names it
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it is only read
	return transfer.ReadFile(f)
}

// writeReceipt writes what a receipt says. Decode allows only visible characters.
func writeReceipt(w io.Writer, r receipt.Receipt) {
	fmt.Fprintf(w, "receipt %d of %s, fleet %s, by site %s, made %s\n", r.Sequence, r.Environment, r.Fleet, r.Site, rollout.Stamp(r.Made))
	line := func(label, format string, args ...any) {
		fmt.Fprintf(w, "  %-8s %s\n", label, fmt.Sprintf(format, args...))
	}
	if b := r.Bundle; b != nil {
		line("bundle", "%d was imported last (%.10s)", b.Sequence, b.Digest)
	}
	if b := r.Branch; b.Commit != "" {
		line("runs", "%.8s since %s", b.Source, rollout.Stamp(b.Since))
	} else {
		line("runs", "nothing")
	}
	if r.Branch.Foreign != "" {
		line("foreign", "%s", r.Branch.Foreign)
	}
	behind := 0
	for _, c := range r.Clusters {
		if c.Desired != "" && c.Branch.Tree != c.Desired {
			behind++
		}
		if c.Branch.Foreign != "" {
			line("foreign", "%s: %s", c.Name, c.Branch.Foreign)
		}
	}
	line("clusters", "%s, %d behind", hydrate.Count(len(r.Clusters), "cluster"), behind)
	if at := r.Rollout.Healthy; !at.IsZero() {
		line("healthy", "since %s", rollout.Stamp(at))
	}
	if h := r.Halt; h != nil {
		line("halted", "%s", rollout.Halt{By: h.By, Reason: h.Reason, At: h.At})
	}
	for _, f := range r.Freezes {
		target := f.Cluster
		if target == "" {
			target = r.Environment
		}
		line("freeze", "%s is %s", target, rollout.Freeze{By: f.By, Reason: f.Reason, From: f.From, Until: f.Until})
	}
}
