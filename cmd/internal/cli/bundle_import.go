package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/bundle"
	"github.com/sluice-gitops/sluice/bundle/envelope"
	"github.com/sluice-gitops/sluice/bundle/incoming"
	"github.com/sluice-gitops/sluice/bundle/mirror"
	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

func newBundleInspect(o IO) *cobra.Command {
	var trust envelopeTrust
	var html string
	c := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Show what a bundle says, and who signed it",
		Long: `Shows what a bundle brings and why, after it has checked its form, sizes and digests. It needs no key and no repository. With
--signers, it says whose signatures count. Without, nothing that it shows is proven.

Exit status: 0 if the file is a bundle; 1 if it is damaged or altered.`,
		Example: "  sluice bundle inspect gov-0042.sluice\n  sluice bundle inspect gov-0042.sluice --signers signers.yaml",
		Args:    exactArgs("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			e, err := openEnvelope(args[0])
			if err != nil {
				return err
			}
			defer e.close()
			contents, err := bundle.ReadContents(e.Envelope)
			if err != nil {
				return fmt.Errorf("%s: %w", e.name, err)
			}
			if html != "" {
				images, err := bundle.ReadImages(e.Envelope)
				if err != nil {
					return fmt.Errorf("%s: %w", e.name, err)
				}
				if err := bundlePage(html, e.Manifest, e.Digest, e.Size, contents, images); err != nil {
					return err
				}
			}
			printContents(o.Out, e.Manifest, e.Digest, contents)
			if trust.file == "" {
				fmt.Fprintf(o.Out, "signatures: %d, not verified (--signers FILE verifies them)\n", len(e.Signatures))
				return nil
			}
			verdict, err := trust.verified(e.Envelope)
			if err != nil && !errors.Is(err, envelope.ErrUntrusted) {
				return err
			}
			printVerdict(o.Out, verdict, err)
			return nil
		},
	}
	trust.flag(c.Flags())
	c.Flags().StringVar(&html, "html-file", "", "also write the content of the bundle as one HTML page to this `file`")
	return c
}

func printVerdict(w io.Writer, v envelope.Verdict, err error) {
	for i, s := range v.Signatures {
		if s.By != "" {
			fmt.Fprintf(w, "signature %d: %s\n", i+1, quoted(s.By))
		} else {
			fmt.Fprintf(w, "signature %d: does not count: %s\n", i+1, quoted(s.Problem))
		}
	}
	if err != nil {
		fmt.Fprintf(w, "verdict: %s\n", quoted(err.Error()))
		return
	}
	fmt.Fprintf(w, "verdict: trusted, %d of %d required signers signed it\n", len(v.Names), v.Threshold)
}

type bundleImportOptions struct {
	promotionFlags
	trust  envelopeTrust
	digest envelopeDigest
	trunk  gitstore.Commit // of the site; zero if it has none. site sets it
}

// site opens the repository of a site. It need not have a trunk yet: the first bundle can bring it.
func (x *bundleImportOptions) site(ctx context.Context, o IO) (*app.Session, bundle.Site, *fleet.Fleet, error) {
	if err := x.signing.sign(o, &x.Options); err != nil {
		return nil, bundle.Site{}, nil, err
	}
	s, err := app.Open(ctx, o.Env, x.Options, x.progress(o))
	if err != nil {
		return nil, bundle.Site{}, nil, err
	}
	out := bundle.Site{Store: s.Store, Signer: x.Signer, Version: app.Version(), Now: time.Now()}
	var f *fleet.Fleet
	_, err = trunkOf(ctx, s, !x.local)
	switch err { // any error: the repository may be empty
	case nil:
		opened, commit, err := x.prepare(ctx, o, s)
		if err != nil {
			s.Close()
			return nil, out, nil, err
		}
		s, x.trunk = opened, commit
		if f, _, err = s.Fleet(ctx, commit.Tree); err != nil {
			s.Close()
			return nil, out, nil, err
		}
		out.Branches, out.Trunk, out.Allowed, out.Committer = s.Branches, f.Spec.Trunk, f.Signers(), branch.Committer(f.Spec.Output.Committer)
	default:
		branches, failed := x.emptySite(ctx, s)
		if failed != nil || branches == nil {
			s.Close()
			return nil, out, nil, errors.Join(failed, err)
		}
		out.Branches = branches
	}
	return s, out, f, nil
}

// emptySite returns the branches of a repository that has none; nil if it has some.
func (x *bundleImportOptions) emptySite(ctx context.Context, s *app.Session) (gitstore.Branches, error) {
	branches := s.Store.Local()
	if !x.local || s.IsURL() {
		if x.Output != "" {
			return nil, usagef("the first bundle brings the trunk, which only a Git repository can have: leave out --remote %s", x.Output)
		}
		var err error
		if branches, err = s.SourceRemote(x.remote); err != nil {
			return nil, err
		}
	}
	refs, err := branches.List(ctx, "")
	if err != nil || len(refs) > 0 {
		return nil, err
	}
	return branches, nil
}

func (x *bundleImportOptions) flagsOf(c *cobra.Command) {
	f := c.Flags()
	x.remoteFlag(f, &x.remote, "`name` of the remote that has the branches")
	f.BoolVar(&x.local, "local", false, "work on the branches of this clone")
	x.trust.flag(f)
	x.digest.flag(f)
}

func newBundleImport(o IO) *cobra.Command {
	var x bundleImportOptions
	c := &cobra.Command{
		Use:   "import FILE|FOLDER",
		Short: "Import a bundle at its site, as a proposal",
		Long: `Verifies a bundle by the site's own list of signers, checks that it follows from what the site imported before, and that it has
the objects of its branches and no others. Then it moves sluice/incoming/ENVIRONMENT and, if the bundle brings it, the trunk. It
moves no branch of a cluster and not the environment branch: "sluice promote ENVIRONMENT" and the service do that, by the gates,
windows, approvals and freezes of the site.

Of a folder, it imports all bundles in their order. It leaves out those that the site has and those that are older, and says so. It
skips files that are damaged or not trusted, imports the others, and exits with 1.

If spec.signers lists keys and no signature of the newest import counts, importing the same bundle again with --sign-key signs it:
promotions then take it. No import before it counts any more.

Charts and commits of other repositories that the bundle brings go to the branch sluice/mirror/ENVIRONMENT, where rendering finds them.

It refuses a bundle that builds on one that the site lacks, an older one, one of another home, one that goes back and does not say
so, and one that rewrites history.

Exit status: 0 if the site has the bundle; 1 if it was refused.`,
		Example: "  sluice bundle import gov-0042.sluice --signers signers.yaml\n  sluice bundle import /media/stick/ --signers signers.yaml",
		Args:    exactArgs("FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := x.check(); err != nil {
				return err
			}
			if err := x.digest.valid(); err != nil {
				return err
			}
			return x.run(c.Context(), o, args[0])
		},
	}
	x.readFlags(c)
	x.flagsOf(c)
	x.signing.flag(c.Flags())
	return c
}

func (x *bundleImportOptions) run(ctx context.Context, o IO, name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return x.importFolder(ctx, o, name)
	}
	f, err := openEnvelope(name)
	if err != nil {
		return err
	}
	defer f.close()
	if err := x.importOne(ctx, o, f, false); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	return nil
}

// importFolder imports the bundles of a folder, and skips what is none, what is not trusted and what is older.
func (x *bundleImportOptions) importFolder(ctx context.Context, o IO, name string) error {
	if x.digest.want != "" {
		return usagef("--digest is of one file, and %s is a folder", name)
	}
	bad := 0
	skip := func(file string, why error) {
		bad++
		fmt.Fprintf(o.Err, "skipped: %s\n", safetext.Line(strings.TrimPrefix(why.Error(), file+": ")+" ("+file+")"))
	}
	files, err := folder(ctx, name, envelope.Bundle, skip)
	defer func() {
		for _, f := range files {
			f.close()
		}
	}()
	if err != nil {
		return err
	}
	if len(files)+bad == 0 {
		return fmt.Errorf("the folder %s has no bundle (files that end with .sluice)", name)
	}
	for _, f := range files {
		err := x.importOne(ctx, o, f, true)
		if errors.Is(err, envelope.ErrUntrusted) {
			skip(f.name, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	if bad > 0 {
		return fmt.Errorf("%s: %s skipped, which are damaged or not trusted", name, count(bad, "file"))
	}
	return nil
}

// importOne imports a bundle. Of a folder, one that is older than the last import is left out.
func (x *bundleImportOptions) importOne(ctx context.Context, o IO, f *openedFile, many bool) error {
	if err := x.digest.check(f); err != nil {
		return err
	}
	verdict, err := x.trust.verified(f.Envelope)
	if err != nil {
		return err
	}
	s, site, rules, err := x.site(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	trust, err := x.trust.required()
	if err != nil {
		return err
	}
	site.OwnTrunk = !trust.TakesTrunk()
	opened, err := bundle.Open(ctx, site, f.Envelope)
	if known, ok := errors.AsType[*bundle.KnownError](err); ok && (many || known.Newest) {
		fmt.Fprintf(o.Out, "bundle %d for %s: imported already\n", f.Sequence, f.Environment)
		return nil
	}
	if older, ok := errors.AsType[*bundle.OlderError](err); ok && many {
		fmt.Fprintf(o.Out, "bundle %d for %s: left out, it is older than bundle %d, which this site has\n", f.Sequence, f.Environment, older.Has)
		return nil
	}
	if err != nil {
		return err
	}
	defer opened.Close()
	if rules != nil && !opened.Trunk() {
		if err := incoming.Declared(rules, f.Environment); err != nil {
			return err
		}
	}
	got, err := bundle.Import(ctx, site, opened)
	if err != nil {
		return err
	}
	printVerdict(o.Out, verdict, nil)
	fmt.Fprintf(o.Out, "bundle %d for %s: imported to %s (source %.10s)\n", got.Sequence, got.Environment, incoming.Branch(got.Environment),
		opened.Source)
	if got.First {
		fmt.Fprintf(o.Out, "the import is signed now; no import before it counts\n")
	}
	for _, m := range opened.Moves {
		fmt.Fprintf(o.Out, "%s moved to %s\n", quoted(m.Branch), m.New.Short())
	}
	if !opened.Brought.IsZero() {
		fmt.Fprintf(o.Out, "%s and %s of other repositories: kept on %s\n", count(len(opened.Charts), "chart"), count(len(opened.Commits), "commit"),
			mirror.Branch(got.Environment))
	}
	if trunk := opened.TrunkCommit(); !trunk.IsZero() {
		wants, err := wantsSignature(ctx, s, got.Commit, trunk)
		if err != nil {
			return err
		}
		if wants {
			fmt.Fprintf(o.Out, "next: spec.signers of the trunk lists keys, so import the bundle again with --sign-key FILE; then sluice promote %s\n", got.Environment)
			return nil
		}
	}
	fmt.Fprintf(o.Out, "next: sluice promote %s\n", got.Environment)
	return nil
}

// wantsSignature reports whether the trunk that a bundle brought lists signers, and none of them signed the import.
func wantsSignature(ctx context.Context, s *app.Session, commit, trunk gitstore.Hash) (bool, error) {
	c, err := s.Store.Commit(ctx, trunk)
	if err != nil {
		return false, err
	}
	f, _, err := s.Fleet(ctx, c.Tree)
	if err != nil || f.Signers().Empty() {
		return false, err
	}
	_, err = s.Store.VerifySignature(ctx, commit, f.Signers())
	if _, unsigned := errors.AsType[*gitstore.SignatureError](err); unsigned {
		return true, nil
	}
	return false, err
}
