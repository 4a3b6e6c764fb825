package review

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/fleet/explain"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/session"
	"github.com/sluice-gitops/sluice/renderer/worker"
)

// explainTask is the input of JobExplain.
type explainTask struct {
	workerTask
	Request ExplainRequest
}

// maxExplained limits the lines of one answer.
const maxExplained = 300

// ExplainRequest asks which layers set the values of a target.
type ExplainRequest struct {
	Tree               gitstore.Hash // of the head
	App, Cluster, Path string
	Key                []byte // of the fingerprints that replace secrets
}

// Explanation is the answer to an ExplainRequest.
type Explanation struct {
	Lines   []string
	Refused string // why there are no lines, for the author of the question
}

// Explain answers a question about a merge request's head, which a worker process reads.
func Explain(ctx context.Context, s *session.Session, workers Workers, repository string,
	r ExplainRequest,
) (*Explanation, error) {
	p, err := newParent(ctx, s, Request{})
	if err != nil {
		return nil, err
	}
	defer p.close()
	r.Key = derivedKey(r.Key, repository)
	data, err := p.call(ctx, workers(repository, p.schemaFolder), JobExplain, explainTask{taskOf(s), r})
	if err != nil {
		return nil, err
	}
	var out Explanation
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
	s, err := task.session(ask)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	out, err := explainTarget(ctx, s, &task.Request)
	if err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

func explainTarget(ctx context.Context, s *session.Session, r *ExplainRequest) (*Explanation, error) {
	f, _, err := s.Fleet(ctx, r.Tree)
	if _, broken := errors.AsType[fleet.Problems](err); broken {
		return &Explanation{Refused: "the fleet of the merge request cannot be read"}, nil
	}
	if err != nil {
		return nil, err
	}
	a, ok := f.App(r.App)
	c, found := f.Cluster(r.Cluster)
	if !ok || !found || !f.Places(a, c) {
		return &Explanation{Refused: fmt.Sprintf("the app %s is not placed on the cluster %s", r.App, r.Cluster)}, nil
	}
	t := fleet.Target{App: a, Cluster: c}
	view, err := s.Open(ctx, r.Tree)
	if err != nil {
		return nil, err
	}
	defaults, err := view.Defaults(ctx, t, "")
	if err != nil { // the chart cannot be fetched: explain only the layers
		defaults = explain.Defaults{}
	}
	chains, err := explain.Values(f, t, "", r.Path, defaults)
	if err != nil {
		return &Explanation{Refused: err.Error()}, nil //nolint:nilerr // the error is the answer to the person
	}
	return &Explanation{Lines: explanation(chains, diff.NewMasker(r.Key))}, nil
}

func explanation(chains []explain.Chain, mask *diff.Masker) []string {
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
				shown = fmt.Sprint(mask.Value(chain.Path, origin.Set))
			}
			lines = append(lines, fmt.Sprintf("  %s%s  %s  %s:%d", mark, layer, shown, cmp.Or(origin.File, "-"),
				origin.Line))
		}
	}
	if len(lines) > maxExplained {
		lines = append(lines[:maxExplained], fmt.Sprintf("… and %d more lines: name a path", len(lines)-maxExplained))
	}
	return lines
}
