package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/bundle"
	"github.com/sluice-gitops/sluice/bundle/incoming"
	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/verify"
)

type bundleVerifyOptions struct {
	common
	trust  envelopeTrust
	digest envelopeDigest
	render bool
	remote string
}

func newBundleVerify(o IO) *cobra.Command {
	var x bundleVerifyOptions
	c := &cobra.Command{
		Use:   "verify FILE",
		Short: "Check the form, the digests and the signers of a bundle",
		Long: `Checks the form, sizes and digests of a bundle, and that enough of the signers signed it who count at this side. It needs no
repository.

--render renders the environment again from the source commits, and compares file by file with what the bundle brings: what home
signed is then what the source says. Charts and other repositories come from the bundle and from the mirror of this site
(sluice/mirror/…): no registry and no other repository is asked, and no credentials are used for them. A full bundle with the
source is rendered in an empty repository; any other needs a repository that has what it builds on, such as that of the site.

Exit status: 0 if the bundle is trusted, and with --render is what the source says; 1 if it is not trusted, or could not be
rendered; 3 if the rendering differs, if a source commit is not in the trunk, or if spec.signers does not allow the commit.`,
		Example: "  sluice bundle verify gov-0042.sluice --signers signers.yaml\n  sluice bundle verify gov-0042.sluice --signers signers.yaml --render",
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
	x.flags(c)
	f := c.Flags()
	x.trust.flag(f)
	x.digest.flag(f)
	f.BoolVar(&x.render, "render", false, "render the environment again from the source in the bundle, and compare")
	f.StringVar(&x.remote, "remote", "origin", "`name` of the remote that has what the bundle builds on")
	return c
}

func (x *bundleVerifyOptions) run(ctx context.Context, o IO, name string) error {
	e, err := openEnvelope(name)
	if err != nil {
		return err
	}
	defer e.close()
	contents, err := bundle.ReadContents(e.Envelope)
	if err != nil {
		return fmt.Errorf("%s: %w", e.name, err)
	}
	if err := x.digest.check(e); err != nil {
		return err
	}
	verdict, err := x.trust.verified(e.Envelope)
	if err != nil {
		return fmt.Errorf("%s: %w", e.name, err)
	}
	printVerdict(o.Out, verdict, nil)
	if !x.render {
		return nil
	}
	if err := x.again(ctx, o, e, contents); err != nil {
		if _, known := errors.AsType[*exitError](err); known {
			return err
		}
		return fmt.Errorf("%s: %w", e.name, err)
	}
	return nil
}

// again renders what the bundle brings again.
func (x *bundleVerifyOptions) again(ctx context.Context, o IO, e *openedFile, contents *bundle.Contents) error {
	s, closing, err := x.open(ctx, o, e, contents)
	if err != nil {
		return err
	}
	defer closing()
	b, err := bundle.Read(ctx, bundle.Site{Store: s.Store}, e.Envelope)
	if err != nil {
		return err
	}
	defer b.Close()
	s.AddMirror(b.Brought)
	s = s.FromMirror()
	tip := b.TrunkCommit()
	if tip.IsZero() {
		trunk, err := trunkOf(ctx, s, true)
		if err != nil {
			return fmt.Errorf("the bundle brings no trunk, and there is none here: export with --source: %w", err)
		}
		tip = trunk.Hash
	}
	trunk, err := s.Store.Commit(ctx, tip)
	if err != nil {
		return err
	}
	f, _, err := s.Fleet(ctx, trunk.Tree)
	if err != nil {
		return err
	}
	got, err := verify.Commit(ctx, s.Hydrator, f, e.Environment, b.Import.Home, tip)
	if err != nil {
		return err
	}
	printVerification(o.Out, []verify.Verification{*got})
	return (&verifyOptions{environments: []string{e.Environment}}).status([]verify.Verification{*got})
}

// open opens an empty repository for a full bundle, and the one that the flags name for any other.
func (x *bundleVerifyOptions) open(ctx context.Context, o IO, e *openedFile, contents *bundle.Contents) (*app.Session, func(), error) {
	options := x.Options
	if contents.Full() && contents.Trunk() {
		dir, err := os.MkdirTemp("", "sluice-verify-")
		if err != nil {
			return nil, nil, err
		}
		options.Repo = dir
		s, err := app.OpenFolder(ctx, o.Env, options, x.progress(o))
		if err != nil {
			return nil, nil, errors.Join(err, os.RemoveAll(dir))
		}
		return s, func() { s.Close(); _ = os.RemoveAll(dir) }, nil // it is empty
	}
	s, err := app.Open(ctx, o.Env, options, x.progress(o))
	if err != nil {
		return nil, nil, err
	}
	branches, err := s.SourceRemote(x.remote)
	var refs map[string]gitstore.Hash
	if err == nil {
		refs, err = branches.List(ctx, incoming.Branch(e.Environment))
	}
	if tip := refs[incoming.Branch(e.Environment)]; err == nil && !tip.IsZero() {
		err = branches.Fetch(ctx, tip)
	}
	if err != nil {
		s.Close()
		return nil, nil, err
	}
	return s, s.Close, nil
}
