package policy

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/tester"
)

// TestResult is the result of one test.
type TestResult struct {
	Name     string        `json:"name"` // data.main.test_latest
	File     string        `json:"file"`
	Line     int           `json:"line"`
	Pass     bool          `json:"pass"`
	Skip     bool          `json:"skip,omitempty"`
	Error    string        `json:"error,omitempty"`
	Output   string        `json:"output,omitempty"`
	Duration time.Duration `json:"duration"`
}

// Test runs the rules named test_ in policy/*.rego like conftest and opa. run is a regular expression that selects
// tests by name; "" selects all.
func Test(ctx context.Context, repository fs.FS, run string, o Options) ([]TestResult, error) {
	e, err := Load(ctx, repository, o)
	if err != nil {
		return nil, err
	}
	return e.test(ctx, run)
}

// TestOwn runs the tests of the own policy of a workspace; see Test.
func TestOwn(ctx context.Context, dir string, files []File, run string, o Options) ([]TestResult, error) {
	e, err := LoadOwn(ctx, dir, files, o)
	if err != nil {
		return nil, err
	}
	return e.test(ctx, run)
}

func (e *Engine) test(ctx context.Context, run string) ([]TestResult, error) {
	if len(e.rego.modules) == 0 {
		return nil, nil
	}
	store := inmem.NewFromObject(e.rego.data)
	txn, err := store.NewTransaction(ctx)
	if err != nil {
		return nil, err
	}
	defer store.Abort(ctx, txn)
	runner := tester.NewRunner().SetStore(store).SetModules(maps.Clone(e.rego.modules)).CapturePrintOutput(true).
		RaiseBuiltinErrors(true).SetTimeout(regoTimeout)
	if run != "" {
		runner = runner.Filter(run)
	}
	results, err := runner.RunTests(ctx, txn)
	if err != nil {
		return nil, fmt.Errorf("tests in %s/: %w", e.dir, err)
	}
	var out []TestResult
	for r := range results {
		one := TestResult{
			Name: strings.TrimPrefix(r.Package, "data.") + "." + r.Name, Pass: r.Pass() && !r.Fail,
			Skip: r.Skip, Output: string(r.Output), Duration: r.Duration,
		}
		if r.Location != nil {
			one.File, one.Line = r.Location.File, r.Location.Row
		}
		if r.Error != nil {
			one.Pass, one.Error = false, r.Error.Error()
		}
		out = append(out, one)
	}
	slices.SortStableFunc(out, func(a, b TestResult) int { return strings.Compare(a.File+a.Name, b.File+b.Name) })
	return out, nil
}
