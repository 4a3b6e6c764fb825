package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/bundle"
	"github.com/sluice-gitops/sluice/bundle/envelope"
	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/service/promotions"
	"github.com/sluice-gitops/sluice/site/index"
)

type bundleExportOptions struct {
	promotionFlags
	keys        envelopeKeys
	environment string
	since       string
	full        bool
	again       int64
	source      bool
	images      string
	html        string
	file        string
}

func newBundleExport(o IO) *cobra.Command {
	var x bundleExportOptions
	c := &cobra.Command{
		Use:   "export",
		Short: "Write a bundle with what a site lacks of an environment",
		Long: `Writes one signed file for a site that no network reaches: the commits of the environment branch that the site lacks and, with
--source, those of the trunk, with the packed charts and the commits of other repositories that rendering the environment needs;
the record of the environment; the images of the manifests that it brings; and a software bill of
materials. Home numbers the bundles of each environment on the branch sluice/bundles.

--since names what the site has: the number, the digest or the commit of a bundle that was exported before, "last" for the
newest one, or "receipt" for what the newest receipt of the site says. A site refuses a bundle if it lacks the one that it
builds on. --full builds on nothing.

Equal content makes an equal file: --again writes a lost bundle once more, byte for byte with Ed25519 keys.`,
		Example: `  sluice bundle export --environment gov --full --source --sign ~/.ssh/id_ed25519 -o gov-0001.sluice
  sluice bundle export --environment gov --since last --source --sign ~/.ssh/id_ed25519 -o /media/stick/
  sluice bundle export --environment gov --since receipt --sign a.key --sign b.key -o gov.sluice --html-file gov.html
  sluice bundle export --environment gov --again 42 --source --sign ~/.ssh/id_ed25519 -o gov-0042.sluice`,
		Args: noArgs("name the environment with --environment"),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := x.check(); err != nil {
				return err
			}
			if err := x.valid(); err != nil {
				return err
			}
			return x.run(c.Context(), o)
		},
	}
	x.readFlags(c)
	f := c.Flags()
	f.StringVar(&x.environment, "environment", "", "`environment` to export")
	f.StringVar(&x.since, "since", "", "`bundle` that the site has: a number, a digest, a commit, last or receipt")
	f.BoolVar(&x.full, "full", false, "build on nothing")
	f.Int64Var(&x.again, "again", 0, "write the bundle with this `number` again")
	f.BoolVar(&x.source, "source", false, "bring the trunk, too, so that the site has the fleet's own rules and can render again")
	f.StringVar(&x.images, "images", "", "also write the list of images to this `file`, for oras, skopeo or hauler")
	f.StringVar(&x.html, "html-file", "", "also write the content of the bundle as one HTML page to this `file`")
	f.StringVarP(&x.file, "output", "o", "", "`file` to write, or a folder that ends with /")
	x.keys.flag(f)
	x.remoteFlag(f, &x.remote, "`name` of the remote that has the branches")
	f.BoolVar(&x.noPolicy, "no-policy", false, "do not ask the trunk's policy for its verdict, apart from the bounds of workspaces")
	f.BoolVar(&x.local, "local", false, "work on the branches of this clone")
	x.signing.flag(f)
	c.MarkFlagsMutuallyExclusive("since", "full", "again")
	completeFlag(c, "output", completeNothing)
	return c
}

// valid refuses a call that lacks what no default can be right for.
func (x *bundleExportOptions) valid() error {
	switch {
	case x.environment == "":
		return usagef("name the environment with --environment")
	case x.file == "":
		return usagef("name the file to write with -o")
	case x.since == "" && !x.full && x.again == 0:
		return usagef("say what the site has with --since, or export everything with --full")
	case x.again < 0:
		return usagef("--again must be the number of a bundle, not %d", x.again)
	}
	return nil
}

func (x *bundleExportOptions) run(ctx context.Context, o IO) error {
	signers, err := x.keys.signers(o)
	if err != nil {
		return err
	}
	s, trunk, err := x.open(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	if x.since == "receipt" {
		f, _, err := s.Fleet(ctx, trunk.Tree)
		if err != nil {
			return err
		}
		got, err := promote.ReadReceipt(ctx, s.Hydrator, f, x.environment)
		if err != nil {
			return err
		}
		if got == nil || got.Bundle == nil {
			return fmt.Errorf("no receipt says that the site of %s has imported a bundle: export with --full", x.environment)
		}
		x.since = got.Bundle.Digest
	}
	out, err := bundle.Export(ctx, s.Hydrator, bundle.ExportRequest{
		Trunk: trunk, Environment: x.environment, Full: x.full, Since: x.since, Again: x.again, Source: x.source,
		Signers: signers, Images: index.Images, Output: x.file, Now: time.Now(), Evidence: evidenceOf(s),
		Policy: promotions.WithoutForge(s, trunk, x.noPolicy).Policy,
	})
	if err != nil {
		return err
	}
	if x.images != "" {
		if err := writeFile(x.images, []byte(strings.Join(append(out.Images, ""), "\n"))); err != nil {
			return err
		}
	}
	if x.html != "" {
		if err := bundlePage(x.html, out.Manifest, out.Digest, out.Size, &out.Contents, out.Images); err != nil {
			return err
		}
	}
	fmt.Fprintf(o.Out, "wrote %s (%s)\n", out.File, mebibytes(out.Size))
	printContents(o.Out, out.Manifest, out.Digest, &out.Contents)
	fmt.Fprintf(o.Out, "images: %d in the manifests that it brings\n", len(out.Images))
	for _, w := range out.Warnings {
		fmt.Fprintf(o.Err, "warning: %s\n", safetext.Line(w))
	}
	return nil
}

// evidenceOf returns the signatures of charts in the cache, or those that registries have now.
func evidenceOf(s *app.Session) bundle.Evidence {
	return func(ctx context.Context, r fetch.Ref, l fetch.Locked) (fetch.Evidence, error) {
		if known := fetch.KnownEvidence(s.Fetcher.Fetcher, l); known != nil {
			return *known, nil
		}
		return s.Fetcher.Evidence(ctx, r, l, true, true)
	}
}

// printContents prints what a bundle says. It is text from outside.
func printContents(w io.Writer, m envelope.Manifest, digest string, c *bundle.Contents) {
	fmt.Fprintf(w, "bundle %d of %s for %s, made of commits until %s\n", m.Sequence, m.Fleet, m.Environment,
		m.Created.Format(time.DateTime))
	fmt.Fprintf(w, "digest: %s\n", digest)
	if c.Full() {
		fmt.Fprintln(w, "builds on: nothing")
	} else {
		fmt.Fprintf(w, "builds on: bundle %d (%.12s)\n", c.Base.Sequence, quoted(c.Base.Digest))
	}
	for _, r := range c.Refs {
		from := ""
		if r.From != "" {
			from = fmt.Sprintf(" from %.10s", r.From)
		}
		fmt.Fprintf(w, "%s: %s%s to %.10s\n", r.Role, quoted(r.Branch), from, r.To)
	}
	fmt.Fprintf(w, "source: %.10s\n", quoted(c.Source))
	if c.Rollback != "" {
		fmt.Fprintf(w, "rollback: %s\n", quoted(c.Rollback))
	}
	fmt.Fprintf(w, "content: %s, %s; %s in the bundle\n", count(c.Clusters, "cluster"), count(c.Manifests, "manifest"),
		count(c.Objects, "Git object"))
	if c.Policy != nil {
		fmt.Fprintf(w, "home's policy said: %s\n", quoted(c.Policy.String()))
	}
	for _, k := range c.Charts {
		fmt.Fprintf(w, "chart: %s %s %s(sha256:%.12s)\n", quoted(k.Chart), quoted(k.Version), worded("from ", k.Repo), k.SHA256)
	}
	for _, k := range c.Commits {
		fmt.Fprintf(w, "repository: %s at %.10s\n", quoted(k.URL), k.Commit)
	}
	const most = 20
	for i, p := range c.Promotions {
		if i == most {
			fmt.Fprintf(w, "  and %d more\n", len(c.Promotions)-most)
			break
		}
		fmt.Fprintf(w, "  %s  %.10s %s", p.At.UTC().Format(time.DateTime), quoted(p.Commit), quoted(p.Subject))
		for _, part := range []struct{ name, text string }{
			{"requested by", p.By},
			{"approved by", strings.Join(p.ApprovedBy, ", ")},
			{"reason:", p.Reason},
			{"rollback:", p.Rollback},
			{"policy exceptions:", strings.Join(p.Exceptions, "; ")},
		} {
			if part.text != "" {
				fmt.Fprintf(w, "; %s %s", part.name, quoted(part.text))
			}
		}
		fmt.Fprintln(w)
	}
	for _, p := range m.Parts {
		fmt.Fprintf(w, "part: %s (%s)\n", p.Name, mebibytes(p.Size))
	}
}

// worded returns a text with words before it and a space after it; "" for none.
func worded(words, text string) string {
	if text == "" {
		return ""
	}
	return words + quoted(text) + " "
}
