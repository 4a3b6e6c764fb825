package cli

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/report/data"
	"github.com/sluice-gitops/sluice/report/page"
	"github.com/sluice-gitops/sluice/review"
)

// noLimit is the size limit for Markdown that no forge receives: GitLab's, in bytes.
const noLimit = 1_000_000

// reviewFlags are the flags of the verbs that compare or judge.
type reviewFlags struct {
	common
	selection  selection
	fromRemote bool
	remote     string
	noPolicy   bool
	offline    bool
	full       bool
	files      reportFiles
}

// reportFiles are files for the report, in addition to standard output.
type reportFiles struct{ markdown, html, json, sarif, junit string }

func (r *reviewFlags) add(cmd *cobra.Command, formats ...string) {
	r.flags(cmd, formats...)
	f := cmd.Flags()
	f.BoolVar(&r.fromRemote, "from-remote", false, "reuse output that is already on the remote's branches")
	r.remoteFlag(f, &r.remote, "`name` of the remote")
	f.BoolVar(&r.noPolicy, "no-policy", false, "do not evaluate the policy, apart from the bounds of workspaces")
	f.BoolVar(&r.offline, "offline", false, "do not download schemas; the report names those that are not cached")
	f.BoolVar(&r.full, "full", false, "print the whole report, without limits on length")
	f.StringVar(&r.files.markdown, "markdown-file", "", "also write the report as Markdown to this `file`")
	f.StringVar(&r.files.html, "html-file", "", "also write the report as one HTML page to this `file`")
	f.StringVar(&r.files.json, "json-file", "", "also write the report as JSON to this `file`")
	f.StringVar(&r.files.sarif, "sarif-file", "", "also write the findings as SARIF 2.1.0 to this `file`")
	f.StringVar(&r.files.junit, "junit-file", "", "also write the findings as JUnit XML to this `file`")
}

// useRemote reads the branches from the remote, if the call asks for it or names a registry, or the repository is a URL.
func (r *reviewFlags) useRemote(ctx context.Context, s *app.Session, head gitstore.Commit) (*app.Session, error) {
	if !r.fromRemote && r.Output == "" && !s.IsURL() {
		return s, nil
	}
	remote, err := s.WithRemote(ctx, head, r.remote)
	return remote, withoutRemote(err, "without --from-remote, the command reads the branches of this clone")
}

// narrow checks the selection against the fleet of a tree and adds it to a request.
func (r *reviewFlags) narrow(ctx context.Context, s *app.Session, tree gitstore.Hash, request *compare.Request) error {
	request.Environments, request.Clusters, request.Apps = r.selection.environments, r.selection.clusters,
		r.selection.apps
	if r.selection.empty() && len(r.selection.environments) == 0 {
		return nil
	}
	f, _, err := s.Fleet(ctx, tree)
	if err != nil {
		return err
	}
	return r.selection.check(f)
}

// review compares, and judges by the policy of the tree judging.
func (r *reviewFlags) review(ctx context.Context, s *app.Session, request compare.Request,
	judging gitstore.Hash,
) (*report.Review, error) {
	out, err := review.Local{Session: s}.Review(ctx, review.Request{
		Request: request, Policy: judging, BoundsOnly: r.noPolicy, Offline: r.offline, Images: !r.offline,
	})
	if err != nil {
		return nil, err
	}
	return out.Review, nil
}

// show prints a review in the format of --output and writes the report files.
func (r *reviewFlags) show(o IO, rev *report.Review) error {
	if err := r.files.write(rev); err != nil {
		return err
	}
	switch r.output {
	case "markdown":
		return writeMarkdown(o.Out, rev)
	case "html":
		return page.Write(o.Out, rev)
	case "json", "yaml":
		return r.document(o.Out, func(w io.Writer) error { return data.JSON(w, rev) })
	}
	return o.paged(func(w io.Writer) error {
		report.Terminal(w, rev, report.TerminalOptions{Color: o.color(), Width: o.width(), Full: r.full})
		return nil
	})
}

func writeMarkdown(w io.Writer, rev *report.Review) error {
	text, _ := report.Markdown(rev, noLimit)
	_, err := io.WriteString(w, text+"\n")
	return err
}

func (f reportFiles) write(rev *report.Review) error {
	for _, one := range []struct {
		name  string
		write func(io.Writer, *report.Review) error
	}{
		{f.markdown, writeMarkdown},
		{f.html, page.Write},
		{f.json, data.JSON},
		{f.sarif, data.SARIF},
		{f.junit, data.JUnit},
	} {
		if one.name == "" {
			continue
		}
		if err := writeReport(one.name, rev, one.write); err != nil {
			return fmt.Errorf("write %s: %w", one.name, err)
		}
	}
	return nil
}

func writeReport(name string, rev *report.Review, write func(io.Writer, *report.Review) error) error {
	return createFile(name, func(w io.Writer) error { return write(w, rev) })
}

// createFile creates or replaces a file that the user names.
func createFile(name string, write func(io.Writer) error) error {
	file, err := os.Create(name) //nolint:gosec // the path comes from the user
	if err != nil {
		return err
	}
	if err := write(file); err != nil {
		_ = file.Close() // the first error is returned
		return err
	}
	return file.Close()
}
