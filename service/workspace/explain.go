package workspace

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sluice-gitops/sluice/bot"
	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/renderer/worker"
	"github.com/sluice-gitops/sluice/report"
)

// explainTask is the input of JobExplain.
type explainTask struct {
	workerTask
	Tree               gitstore.Hash // of the head
	App, Cluster, Path string
	Key                []byte // of the fingerprints that replace secrets
}

// explainAnswer is the answer of JobExplain. Refused is the reason why there are no lines, for the author of the
// question.
type explainAnswer struct {
	Lines   []string
	Refused string
}

// explain answers `/sluice explain`: which layers of the merge request's head set a value of a target. A worker process reads the head.
func (w *Workspace) explain(ctx context.Context, o bot.Order) (string, error) {
	head, err := w.head(ctx, o.MR)
	if err != nil {
		return "", err
	}
	if _, err := trunkTree(ctx, w); err != nil { // the trunk declares which other repositories the clone may fetch from
		return "", err
	}
	s := w.Session
	if !o.Own {
		s = w.withoutCredentials()
	}
	place := w.repo.Place.String()
	answer, err := s.explainIsolated(ctx, w.config.ReviewWorkers, place, explainTask{
		workerTask: s.task(), Tree: head.Tree, App: first(o.App), Cluster: first(o.Clusters), Path: o.Path, Key: derivedKey(w.FingerprintKey(), place),
	})
	if limit, ok := errors.AsType[*LimitError](err); ok { // the same question would exceed the limit again
		return "", fmt.Errorf("%w: %w", bot.ErrRefused, limit)
	}
	if err != nil {
		return "", err
	}
	if answer.Refused != "" {
		return "", fmt.Errorf("%w: %s", bot.ErrRefused, safetext.Message(answer.Refused, 1, maxRefusal))
	}
	const margin = 2000 // characters for the other parts of the comment
	return report.Block(fitLines(answer.Lines, w.repo.Forge.CommentLimit()-margin)), nil
}

const (
	maxExplained = 300 // lines of one answer
	maxExplainer = 500 // characters of a line
	maxRefusal   = 300 // characters
)

// fitLines shortens lines, and omits the last ones if all lines exceed a number of characters.
func fitLines(lines []string, limit int) []string {
	for i, line := range lines {
		lines[i] = safetext.Shorten(line, maxExplainer)
		if limit -= len(lines[i]) + 1; limit < 0 {
			return append(lines[:i], fmt.Sprintf("… and %d more lines: name a path", len(lines)-i))
		}
	}
	return lines
}

// explainIsolated runs JobExplain in a worker process.
func (s *Session) explainIsolated(ctx context.Context, workers ReviewWorkers, repository string, task explainTask) (*explainAnswer, error) {
	host, err := s.newParent(ctx, ReviewOptions{})
	if err != nil {
		return nil, err
	}
	defer host.close()
	data, err := host.call(ctx, workers(repository, host.schemaFolder), JobExplain, task)
	if err != nil {
		return nil, err
	}
	var out explainAnswer
	if err := decodeAnswer(data, &out); err != nil {
		return nil, err
	}
	if len(out.Lines) > maxExplained+1 {
		return nil, fmt.Errorf("%w: the worker sent %d lines", worker.ErrProtocol, len(out.Lines))
	}
	return &out, nil
}

// explainJob explains the values of a target in the worker process.
func explainJob(ctx context.Context, input []byte, ask worker.Ask) ([]byte, error) {
	var task explainTask
	if err := json.Unmarshal(input, &task); err != nil {
		return nil, fmt.Errorf("read a task: %w", err)
	}
	session, err := task.session(ask)
	if err != nil {
		return nil, err
	}
	defer session.Store.Close() //nolint:errcheck // it has no files
	out, err := session.explainTarget(ctx, &task)
	if err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

func (s *Session) explainTarget(ctx context.Context, task *explainTask) (*explainAnswer, error) {
	f, _, err := s.Fleet(ctx, task.Tree)
	if _, broken := errors.AsType[fleet.Problems](err); broken {
		return &explainAnswer{Refused: "the fleet of the merge request cannot be read"}, nil
	}
	if err != nil {
		return nil, err
	}
	a, ok := f.App(task.App)
	c, found := f.Cluster(task.Cluster)
	if !ok || !found || !f.Places(a, c) {
		return &explainAnswer{Refused: fmt.Sprintf("the app %s is not placed on the cluster %s", task.App, task.Cluster)}, nil
	}
	t := fleet.Target{App: a, Cluster: c}
	view, err := s.Open(ctx, task.Tree)
	if err != nil {
		return nil, err
	}
	defaults, err := view.Defaults(ctx, t, "")
	if err != nil { // the chart cannot be fetched: explain only the layers
		defaults = fleet.Defaults{}
	}
	chains, err := f.Explain(t, "", task.Path, defaults)
	if err != nil {
		return &explainAnswer{Refused: err.Error()}, nil //nolint:nilerr // the error is the answer to the person
	}
	return &explainAnswer{Lines: explanation(chains, diff.NewMasker(task.Key))}, nil
}

func explanation(chains []fleet.Chain, mask *diff.Masker) []string {
	var lines []string
	for _, chain := range chains {
		lines = append(lines, chain.Path)
		for _, origin := range chain.Origins {
			mark := "  "
			if origin.Winner {
				mark = "* "
			}
			layer := origin.Layer
			if origin.Value != "" {
				layer += "=" + origin.Value
			}
			shown := "(not shown: the object does not contain it as it is)" // it can come from a Secret
			if !origin.Elsewhere {
				shown = mask.Text(fmt.Sprint(origin.Set))
			}
			lines = append(lines, fmt.Sprintf("  %s%s  %s  %s:%d", mark, layer, shown, cmp.Or(origin.File, "-"), origin.Line))
		}
	}
	if len(lines) > maxExplained {
		lines = append(lines[:maxExplained], fmt.Sprintf("… and %d more lines: name a path", len(lines)-maxExplained))
	}
	return lines
}
