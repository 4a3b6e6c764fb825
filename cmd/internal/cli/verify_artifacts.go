package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/artifacts"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

// artifacts compares artifacts with the branches of the remote.
func (v *verifyOptions) artifacts(ctx context.Context, o IO, s *app.Session, head gitstore.Commit) error {
	c, ok, err := published(ctx, s, head.Tree, v.remote)
	if err != nil {
		return err
	}
	if !ok {
		return usagef("--oci needs spec.output.oci, which says where artifacts are")
	}
	var clusters []string
	for _, name := range v.environments {
		for _, one := range c.Fleet.ClustersOf(name) {
			clusters = append(clusters, one.Name)
		}
	}
	if len(v.environments) > 0 && len(clusters) == 0 {
		return errors.New("the environments of --env have no clusters")
	}
	found, err := artifacts.Verify(ctx, c, clusters)
	if err != nil {
		return err
	}
	if v.structured() {
		err = v.encode(o.Out, found)
	} else {
		printArtifactVerification(o.Out, found)
	}
	switch {
	case err != nil:
		return err
	case len(found) == 0:
		return fmt.Errorf("nothing was verified: %s has no cluster branches", s.Branches)
	}
	return artifactStatus(found)
}

// artifactStatus returns the exit status: ExitFailed if an artifact could not be read, otherwise ExitDiffers if an artifact
// differs from its branch, otherwise none.
func artifactStatus(found []artifacts.Verification) error {
	code := ExitOK
	for _, a := range found {
		switch a.Status {
		case artifacts.VerifyOK:
		case artifacts.VerifyFailed:
			return &exitError{code: ExitFailed}
		default:
			code = ExitDiffers
		}
	}
	if code != ExitOK {
		return &exitError{code: code}
	}
	return nil
}

func printArtifactVerification(w io.Writer, found []artifacts.Verification) {
	for _, a := range found {
		fmt.Fprintf(w, "%-7s %s", a.Status, a.Repository)
		if a.Digest != "" {
			fmt.Fprintf(w, "@%s", safetext.Line(a.Digest))
		}
		fmt.Fprintf(w, " %s %.10s", a.Branch, a.Commit)
		if a.Reason != "" {
			fmt.Fprintf(w, ": %s", safetext.Line(a.Reason))
		}
		fmt.Fprintln(w)
		for _, d := range a.Differences {
			fmt.Fprintf(w, "  %-7s %s\n", d.Effect, safetext.Line(d.Path))
		}
	}
}
