package ownpolicy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/sluice-gitops/sluice/policy"
	"github.com/sluice-gitops/sluice/renderer/manifest"
	"github.com/sluice-gitops/sluice/renderer/worker"
)

// Job is the name of the job that judges objects of a workspace by its own policy, in worker.Jobs.
const Job = "policy"

// Jobs returns the job of this package, for the child process.
func Jobs() worker.Jobs { return worker.Jobs{Job: job} }

// ownTask is the input of Job.
type ownTask struct {
	Workspace    string
	Dir          string // of the policy, for messages
	Files        []policy.File
	Now          time.Time
	Environments []string
	ownPart
}

// ownPart are targets of a workspace. They refer to objects by their index.
type ownPart struct {
	Objects  []json.RawMessage
	Subjects []ownSubject
}

type ownSubject struct {
	Cluster *policy.Cluster
	App     *policy.App
	New     []int
	Old     []int // -1: the object is new
}

// ownAnswer is the answer of Job.
type ownAnswer struct {
	Findings []policy.Finding
	Notes    []string
	Rules    []policy.Rule
	Problems policy.Problems // mistakes in the files
	Failed   string          // any other reason why the policy cannot be evaluated
	Limit    bool            // the policy exceeded a limit
}

// failure returns why the policy could not be evaluated.
func (a *ownAnswer) failure() string {
	if len(a.Problems) > 0 {
		return summary(a.Problems)
	}
	return a.Failed
}

// divided divides targets into parts that have at most about ownInput bytes, unless one object has more, and returns
// the bytes of all. Without targets there is one empty part.
func divided(subjects []policy.Subject) (parts []ownPart, sent int, err error) {
	d := divider{parts: []ownPart{{}}, index: map[string]int{}}
	for i := range subjects {
		s := &subjects[i]
		one := ownSubject{Cluster: s.Cluster, App: s.App}
		facts, err := json.Marshal(one)
		if err != nil {
			return nil, 0, err
		}
		for j := range s.Objects {
			now, old, err := encoded(&s.Objects[j])
			if err != nil {
				return nil, 0, err
			}
			if d.size > 0 && d.size+len(facts)+len(now)+len(old) > ownInput {
				d.add(one, len(facts))
				d.next()
				one = ownSubject{Cluster: s.Cluster, App: s.App}
			}
			one.New = append(one.New, d.object(s.Objects[j].Key, now))
			was := -1
			if old != nil {
				was = d.object(s.Objects[j].OldKey, old)
			}
			one.Old = append(one.Old, was)
		}
		d.add(one, len(facts))
	}
	return d.parts, d.sent + d.size, nil
}

// encoded returns the JSON of an object, and that of its old state; nil without one.
func encoded(o *policy.Object) (now, old json.RawMessage, err error) {
	if now, err = json.Marshal(o.Object); err == nil && o.Old != nil {
		old, err = json.Marshal(o.Old)
	}
	if err == nil && len(now)+len(old) > ownObject {
		err = fmt.Errorf("%s has more than %d MiB", o.Object.Identity(), ownObject>>20)
	}
	return now, old, err
}

// divider collects parts. Equal objects are once in a part.
type divider struct {
	parts []ownPart
	size  int            // bytes of the last part
	sent  int            // bytes of the others
	index map[string]int // its objects, by key
}

func (d *divider) last() *ownPart { return &d.parts[len(d.parts)-1] }

func (d *divider) next() {
	d.parts, d.sent, d.size, d.index = append(d.parts, ownPart{}), d.sent+d.size, 0, map[string]int{}
}

// add adds a target, about which facts bytes are known.
func (d *divider) add(s ownSubject, facts int) {
	if len(s.New) > 0 {
		const numbers = 16 // of two indexes
		d.size += facts + numbers*len(s.New)
		d.last().Subjects = append(d.last().Subjects, s)
	}
}

func (d *divider) object(key string, data json.RawMessage) int {
	i, ok := d.index[key]
	if !ok {
		i = len(d.last().Objects)
		d.index[key] = i
		d.size += len(data)
		d.last().Objects = append(d.last().Objects, data)
	}
	return i
}

// job judges the objects of a workspace by its own policy.
func job(ctx context.Context, input []byte, _ worker.Ask) ([]byte, error) {
	var task ownTask
	if err := json.Unmarshal(input, &task); err != nil {
		return nil, fmt.Errorf("read a task: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, ownTimeout)
	defer cancel()
	out, err := judgedByOwn(ctx, &task)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		out, err = ownAnswer{Failed: fmt.Sprintf("it took more than %s", ownTimeout), Limit: true}, nil
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

func judgedByOwn(ctx context.Context, task *ownTask) (ownAnswer, error) {
	engine, err := policy.LoadOwn(ctx, task.Dir, task.Files, policy.Options{
		Now:          task.Now,
		Environments: task.Environments, Parallel: 1, RuleTimeout: ownRule,
	})
	if problems, ok := errors.AsType[policy.Problems](err); ok {
		const shown = 20
		return ownAnswer{Problems: problems[:min(len(problems), shown)]}, nil
	}
	if err != nil {
		return ownAnswer{}, err
	}
	subjects, err := task.subjects()
	if err != nil {
		return ownAnswer{}, err
	}
	result, err := engine.Check(ctx, policy.Input{Subjects: policy.Listed(subjects...)})
	if err != nil {
		return ownAnswer{}, err
	}
	out := ownAnswer{Findings: result.Findings, Notes: result.Notes}
	files := map[string]string{}
	for _, r := range engine.Rules() {
		if !r.BuiltIn {
			out.Rules = append(out.Rules, r)
			files[r.ID] = r.File
		}
	}
	for i := range out.Findings {
		if f := &out.Findings[i]; f.Hint == "" && files[f.Rule] != "" {
			f.Hint = "the rule is in " + files[f.Rule]
		}
	}
	return out, nil
}

// subjects returns the targets of the part.
func (p *ownPart) subjects() ([]policy.Subject, error) {
	objects := make([]manifest.Object, len(p.Objects))
	for i, data := range p.Objects {
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.UseNumber()
		var value map[string]any
		if err := decoder.Decode(&value); err != nil {
			return nil, fmt.Errorf("read an object: %w", err)
		}
		object, _ := numbered(value).(map[string]any) // a map stays one
		objects[i] = object
	}
	out := make([]policy.Subject, len(p.Subjects))
	for i, s := range p.Subjects {
		out[i] = policy.Subject{Cluster: s.Cluster, App: s.App}
		if s.Cluster == nil || s.App == nil || len(s.Old) != len(s.New) {
			return nil, errors.New("a target is incomplete")
		}
		for j, n := range s.New {
			old := s.Old[j]
			if n < 0 || n >= len(objects) || old >= len(objects) {
				return nil, errors.New("a target refers to an object that was not sent")
			}
			o := policy.Object{Key: strconv.Itoa(n), Object: objects[n]}
			if old >= 0 {
				o.OldKey, o.Old = strconv.Itoa(old), objects[old]
			}
			out[i].Objects = append(out[i].Objects, o)
		}
	}
	return out, nil
}

// numbered replaces the numbers of JSON by those that the decoder of YAML gives.
func numbered(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for k, one := range x {
			x[k] = numbered(one)
		}
	case []any:
		for i, one := range x {
			x[i] = numbered(one)
		}
	case json.Number:
		if n, err := strconv.Atoi(x.String()); err == nil {
			return n
		}
		if n, err := strconv.ParseUint(x.String(), 10, 64); err == nil {
			return n
		}
		f, _ := x.Float64() // too large a number becomes infinite
		return f
	}
	return v
}
