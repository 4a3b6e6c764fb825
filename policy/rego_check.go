package policy

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage"
)

// maxTimeouts is the number of timeouts after which a check stops evaluating the rules.
const maxTimeouts = 3

// regoCheck evaluates the fleet's own rules in one check.
type regoCheck struct {
	engine   *Engine
	rules    *regoRules
	notes    *notes
	timeouts atomic.Int32
}

func (c *regoCheck) scope(s *Subject, o *Object) string {
	u := c.rules.uses
	scope := o.Key
	if u.old {
		scope += "\x00old " + o.OldKey
	}
	if u.app {
		scope += "\x00app " + s.App.Name
	}
	if u.environment {
		scope += "\x00environment " + s.Cluster.Environment
	}
	if u.cluster {
		scope += "\x00cluster " + s.Cluster.Name
	}
	return scope
}

func (c *regoCheck) timeout() time.Duration {
	if t := c.engine.options.RuleTimeout; t > 0 {
		return t
	}
	return regoTimeout
}

func (c *regoCheck) check(parent context.Context, s *Subject, o *Object) ([]breach, error) {
	if c.timeouts.Load() >= maxTimeouts {
		c.notes.add(fmt.Sprintf("the rules in %s/*.rego were not evaluated, because they reached the time limit on %d objects", c.engine.dir, maxTimeouts), o.Object.Identity().String())
		return nil, nil
	}
	var e *evaluator
	select {
	case e = <-c.rules.evaluator:
	case <-parent.Done():
		return nil, parent.Err()
	}
	defer func() { c.rules.evaluator <- e }()
	ctx, cancel := context.WithTimeout(parent, c.timeout())
	defer cancel()
	out, err := c.evaluate(ctx, e, s, o)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && parent.Err() == nil {
		c.timeouts.Add(1)
		return nil, fmt.Errorf("the rules in %s/*.rego took more than %s on %s (make them cheaper, or narrow them to a kind first)", c.engine.dir, c.timeout(), o.Object.Identity())
	}
	return out, err
}

func (c *regoCheck) evaluate(ctx context.Context, e *evaluator, s *Subject, o *Object) ([]breach, error) {
	txn, err := e.store.NewTransaction(ctx, storage.WriteParams)
	if err != nil {
		return nil, err
	}
	defer e.store.Abort(ctx, txn)
	if err := e.store.Write(ctx, txn, storage.AddOp, storage.Path{"sluice"}, c.facts(s, o)); err != nil {
		return nil, err
	}
	results, err := e.query.Eval(ctx, rego.EvalInput(jsonValue(map[string]any(o.Object))), rego.EvalTransaction(txn),
		rego.EvalTime(c.rules.now))
	if err != nil {
		return nil, fmt.Errorf("the rules in %s/*.rego on %s: %w", c.engine.dir, o.Object.Identity(), err)
	}
	if len(results) != 1 {
		return nil, nil
	}
	found, _ := results[0].Bindings["found"].(map[string]any) // the query returns an object
	var out []breach
	for _, id := range c.rules.names {
		values, _ := found[id].([]any) // of arrays
		for _, v := range values {
			out = append(out, regoBreaches(id, v)...)
		}
	}
	return out, nil
}

// facts returns data.sluice for an object.
func (c *regoCheck) facts(s *Subject, o *Object) map[string]any {
	facts := map[string]any{
		"environment": s.Cluster.Environment,
		"app":         map[string]any{"name": s.App.Name, "namespace": s.App.Namespace},
		"cluster": map[string]any{
			"name": s.Cluster.Name, "environment": s.Cluster.Environment, "class": s.Cluster.Class,
			"kubeVersion": s.Cluster.KubeVersion,
			"labels":      stringMap(s.Cluster.Labels), "vars": jsonValue(s.Cluster.Vars),
		},
		"parameters": jsonValue(c.engine.parameters),
	}
	if o.Old != nil {
		facts["old"] = jsonValue(map[string]any(o.Old))
	}
	return facts
}

// regoBreaches converts the value of a rule: a string, an object with msg, true, or a collection of these.
func regoBreaches(id string, v any) []breach {
	switch x := v.(type) {
	case string:
		return []breach{{rule: id, message: x}}
	case bool:
		if x {
			return []breach{{rule: id, message: "the rule " + id + " is violated"}}
		}
	case []any:
		var out []breach
		for _, one := range x {
			out = append(out, regoBreaches(id, one)...)
		}
		return out
	case map[string]any:
		if msg, ok := x["msg"].(string); ok {
			b := breach{rule: id, message: msg}
			b.path, _ = x["path"].(string) // optional
			b.hint, _ = x["hint"].(string) // optional
			return []breach{b}
		}
		if len(x) > 0 {
			return []breach{{
				rule:    id,
				message: fmt.Sprintf("the rule %s is violated (it returns an object without msg)", id),
			}}
		}
	}
	return nil
}

func stringMap(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// jsonValue copies a value, because OPA's store keeps a reference.
func jsonValue(v any) any {
	switch x := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, v := range x {
			out[k] = jsonValue(v)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, v := range x {
			out[i] = jsonValue(v)
		}
		return out
	}
	return v
}
