package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/verify"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

type verifyOptions struct {
	common
	environments []string
	commit       string
	fromRemote   bool
	signatures   bool
	oci          bool
	remote       string
}

func newVerify(o IO) *cobra.Command {
	var v verifyOptions
	c := &cobra.Command{
		Use:   "verify",
		Short: "Render branches again from their recorded commits and compare",
		Long: `Renders every environment again from the commits that its branch records, and compares file by file. It names each
difference, such as a change that somebody pushed to a branch by hand. The trunk must contain the recorded commits, and
commits that spec.signers of the trunk does not allow are reported as unsigned.

--signatures renders nothing. It prints who signed the last commit of each environment and cluster branch and of the
records.

--oci compares the OCI artifacts of clusters (spec.output.oci) with the branches of the remote, file by file, and renders
nothing.

Verifies the branches of this repository, or those of the remote if this repository has none of them; --from-remote always
verifies the remote. The output names the repository. A branch that does not exist is reported as missing. If --env names a
missing branch, or if no branch exists, the command fails.

A cluster that a rollout has not reached yet, or that a freeze or a halt keeps as it is, is reported as behind, as planned.

A branch that was written from an unmerged commit records that exception (hydrate --allow-unmerged). Only a signature proves
the record: without spec.signers the branch is reported as unproven.

Exit status: 0 if every branch is what its record says, or behind as planned; 1 if a branch could not be verified or is
unproven; 3 if a branch differs, if it was rendered from a commit that the trunk does not contain, or if a commit is unsigned or its signer unknown.
With --oci: 1 if the registry could not be read; 3 if an artifact is missing or is not what the branch has.`,
		Example: `  sluice verify
  sluice verify --env prod --from-remote
  sluice verify --signatures --from-remote
  sluice verify --oci --env prod
  sluice verify -o json`,
		Args: noArgs("select with --env"),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := v.check(); err != nil {
				return err
			}
			v.fromRemote = v.fromRemote || v.Output != "" // a registry is never this clone
			return v.run(c.Context(), o)
		},
	}
	v.flags(c, "text", "json")
	c.Flags().StringSliceVar(&v.environments, "env", nil, "`environments` to verify (default: all)")
	c.Flags().StringVar(&v.commit, "commit", "", "`revision` whose fleet names the branches (default HEAD)")
	c.Flags().BoolVar(&v.fromRemote, "from-remote", false, "verify the branches of the remote")
	c.Flags().BoolVar(&v.signatures, "signatures", false,
		"check the signatures of rendered commits and records, and nothing else")
	c.Flags().BoolVar(&v.oci, "oci", false, "compare the OCI artifacts with the branches of the remote, and nothing else")
	v.remoteFlag(c.Flags(), &v.remote, "`name` of the remote")
	c.MarkFlagsMutuallyExclusive("oci", "signatures")
	return c
}

func (v *verifyOptions) run(ctx context.Context, o IO) error {
	s, err := app.Open(ctx, o.Env, v.Options, v.progress(o))
	if err != nil {
		return err
	}
	defer s.Close()
	head, err := s.Commit(ctx, v.commit)
	if err != nil {
		return err
	}
	f, _, err := s.Fleet(ctx, head.Tree)
	if err != nil {
		return err
	}
	if err := (&selection{environments: v.environments}).check(f); err != nil {
		return err
	}
	if v.fromRemote || v.oci || s.IsURL() {
		if s, err = s.WithRemote(ctx, head, v.remote); err != nil {
			return withoutRemote(err, "without --from-remote, verify reads the branches of this clone")
		}
	}
	if v.signatures {
		return v.printSignatures(ctx, o, s, head)
	}
	if v.oci {
		return v.artifacts(ctx, o, s, head)
	}
	found, err := verify.Run(ctx, s.Hydrator, head, v.environments, time.Now())
	if err != nil {
		return err
	}
	if !verify.Any(found) && !v.fromRemote && !s.IsURL() {
		if s, found, err = v.verifyRemote(ctx, s, head, found); err != nil {
			return err
		}
	}
	if v.structured() {
		if err := v.encode(o.Out, found); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(o.Out, "branches of %s:\n", s.Branches)
		printVerification(o.Out, found)
	}
	if !verify.Any(found) {
		return fmt.Errorf("nothing was verified: %s has none of the branches (run `sluice hydrate`, or name the remote that has them with --remote)", s.Branches)
	}
	return v.status(found)
}

// verifyRemote verifies the branches of the remote if the local ones do not exist. Without a remote, it returns the
// local result.
func (v *verifyOptions) verifyRemote(ctx context.Context, s *app.Session, head gitstore.Commit,
	local []verify.Verification,
) (*app.Session, []verify.Verification, error) {
	remote, err := s.WithRemote(ctx, head, v.remote)
	if errors.Is(err, gitstore.ErrNoRemote) {
		return s, local, nil
	}
	if err != nil {
		return nil, nil, err
	}
	found, err := verify.Run(ctx, remote.Hydrator, head, v.environments, time.Now())
	return remote, found, err
}

// status fails if a branch could not be verified, or if --env names one that does not exist. Otherwise it reports
// differences, and fails if there are none and an exception is unproven.
func (v *verifyOptions) status(found []verify.Verification) error {
	code := ExitOK
	for _, e := range found {
		switch {
		case e.Status == verify.StatusFailed, e.Status == verify.StatusMissing &&
			slices.Contains(v.environments, e.Environment):
			return &exitError{code: ExitFailed}
		case verify.Tampered(e.Status):
			code = ExitDiffers
		case e.Status == verify.StatusUnproven && code == ExitOK:
			code = ExitFailed
		}
	}
	if code != ExitOK {
		return &exitError{code: code}
	}
	return nil
}

// printSignatures prints the signer of each branch, and fails if spec.signers does not allow one.
func (v *verifyOptions) printSignatures(ctx context.Context, o IO, s *app.Session, head gitstore.Commit) error {
	found, err := verify.Signatures(ctx, s.Hydrator, head, v.environments)
	if err == nil && len(found) == 0 && !v.fromRemote && !s.IsURL() {
		remote, remoteErr := s.WithRemote(ctx, head, v.remote)
		switch {
		case errors.Is(remoteErr, gitstore.ErrNoRemote):
		case remoteErr != nil:
			return remoteErr
		default:
			s = remote
			found, err = verify.Signatures(ctx, s.Hydrator, head, v.environments)
		}
	}
	if err != nil {
		return err
	}
	code := ExitOK
	for _, one := range found {
		if one.Signer == "" {
			code = ExitDiffers
		}
	}
	if v.structured() {
		err = v.encode(o.Out, found)
	} else {
		fmt.Fprintf(o.Out, "branches of %s:\n", s.Branches)
		for _, one := range found {
			if one.Signer == "" {
				fmt.Fprintf(o.Out, "%s %.10s refused: %s\n", one.Branch, one.Commit, safetext.Line(one.Reason))
				continue
			}
			fmt.Fprintf(o.Out, "%s %.10s signed by %s\n", one.Branch, one.Commit, safetext.Line(one.Signer))
		}
	}
	switch {
	case err != nil:
		return err
	case len(found) == 0:
		return fmt.Errorf("nothing was verified: %s has none of the branches (run `sluice hydrate`, or name the remote that has them with --remote)", s.Branches)
	case code != ExitOK:
		return &exitError{code: code}
	}
	return nil
}

func printVerification(w io.Writer, found []verify.Verification) {
	for _, e := range found {
		fmt.Fprintf(w, "%s %s", e.Branch, e.Status)
		if e.Source != "" {
			fmt.Fprintf(w, ", rendered from %.10s", e.Source)
		}
		if e.Reason != "" {
			fmt.Fprintf(w, ": %s", safetext.Line(e.Reason))
		}
		fmt.Fprintln(w)
		printFailures(w, e.Failures, "  ")
		for _, s := range e.Unsigned {
			fmt.Fprintf(w, "  unsigned  %s %s: %s\n", s.Branch, s.Commit, safetext.Line(s.Reason))
		}
		for _, s := range e.Foreign {
			fmt.Fprintf(w, "  foreign %s: %s\n", s.Branch, safetext.Line(s.Reason))
		}
		for _, c := range e.Exceptions {
			fmt.Fprintf(w, "  exception %s was written although the trunk did not contain it, as the branch records\n",
				c)
		}
		for _, b := range e.Behind {
			fmt.Fprintf(w, "  behind  %s runs %s, as planned: %s\n", b.Branch, safetext.Line(b.Source),
				safetext.Line(b.Reason))
		}
		for _, h := range e.Held {
			fmt.Fprintf(w, "  held    %s\n", safetext.Line(h))
		}
		for _, d := range e.Differences {
			fmt.Fprintf(w, "  %-7s %s:%s\n", d.Effect, d.Branch, safetext.Line(d.Path))
		}
	}
}
