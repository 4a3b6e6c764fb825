package data_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/renderer/manifest"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/report/data"
)

var update = flag.Bool("update", false, "write docs/schema/review.json")

const schemaFile = "../../docs/schema/review.json"

func sample() *report.Review {
	web := manifest.Identity{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
	before := manifest.Object{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "web", "namespace": "shop"}, "spec": map[string]any{"replicas": int64(2)},
	}
	after := manifest.Object{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "web", "namespace": "shop"}, "spec": map[string]any{"replicas": int64(0)},
	}
	changes := diff.Compare([]diff.Target{{
		App: "web", Cluster: "a", Environment: "prod", Before: []diff.Object{{Key: "1", Object: before}},
		After: []diff.Object{{Key: "2", Object: after}},
	}}, []diff.Withheld{{App: "db", Cluster: "a", Environment: "prod", Message: "values.yaml:3: bad\nmore"}},
		[]string{"prod"}, one{})
	return &report.Review{
		Fleet: "acme", Base: strings.Repeat("a", 40), Head: strings.Repeat("b", 40), Version: "v1.2.3",
		Changes: changes, Verdict: report.VerdictError,
		Errors: []string{"something\x00 else"}, Links: report.Links{Docs: "https://example.com/policy"},
		Findings: report.Findings{
			Introduced: []report.Finding{
				{
					Rule: "image-tag", Severity: report.SeverityError, Message: "no tag </failure><x>",
					Hint: "give it one", Path: "spec.image", Object: web, App: "web", Environment: "prod",
					Clusters: []string{"a", "b"}, File: "apps/web/app.yaml", Line: 3,
				},
				{
					Rule: "image-tag", Severity: report.SeverityWarning, Message: "again", Object: web, App: "web",
					Environment: "prod", Clusters: []string{"c"},
				},
			},
			Existing: map[report.Severity]int{report.SeverityWarning: 4},
		},
	}
}

type one struct{}

func (one) Placed(string) []diff.Cluster { return nil }

func write(t *testing.T, f func(io.Writer, *report.Review) error, r *report.Review) []byte {
	t.Helper()
	var a, b bytes.Buffer
	if err := f(&a, r); err != nil {
		t.Fatal(err)
	}
	if err := f(&b, r); err != nil || a.String() != b.String() {
		t.Errorf("two runs differ (%v)", err)
	}
	return a.Bytes()
}

func TestJSONAndItsSchema(t *testing.T) {
	r := jsonschema.Reflector{AllowAdditionalProperties: true}
	for _, pkg := range []string{"report", "report/data", "diff"} {
		if err := r.AddGoComments("github.com/sluice-gitops/sluice", "../../"+pkg); err != nil {
			t.Fatal(err)
		}
	}
	schema, err := json.MarshalIndent(r.Reflect(&data.Document{}), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	schema = append(schema, '\n')
	if *update {
		if err := os.WriteFile(schemaFile, schema, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(schemaFile); err != nil || !bytes.Equal(have, schema) {
		t.Errorf("%s is not current (%v): go test ./report/data -run Schema -update", schemaFile, err)
	}
	parsed, err := validator.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := validator.NewCompiler()
	if err := c.AddResource("review.json", parsed); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("review.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, review := range map[string]*report.Review{
		"full": sample(), "empty": {Changes: &diff.ChangeSet{}},
		"without changes": {Errors: []string{"x"}},
	} {
		value, err := validator.UnmarshalJSON(bytes.NewReader(write(t, data.JSON, review)))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiled.Validate(value); err != nil {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	var doc struct {
		Kind    string `json:"kind"`
		Changes struct {
			Groups []struct {
				Objects []struct {
					ID struct{ Kind string } `json:"id"`
				} `json:"objects"`
			} `json:"groups"`
		} `json:"changes"`
	}
	if err := json.Unmarshal(write(t, data.JSON, sample()), &doc); err != nil || doc.Kind != "Review" ||
		doc.Changes.Groups[0].Objects[0].ID.Kind != "Deployment" {
		t.Errorf("the doc is %+v, the error is %v", doc, err)
	}
}

// TestEntriesInJSON: equal changes of several apps are one entry, which names their groups and the place that all of
// them come from.
func TestEntriesInJSON(t *testing.T) {
	r := sample()
	cause := &diff.Cause{File: "charts/web/templates/deployment.yaml", Line: 14}
	first := r.Changes.Groups[0]
	first.Cause = cause
	second, third := first, first
	second.ID, second.App, third.ID, third.App, third.Clusters = "2", "shop", "3", "other", []string{"b"}
	r.Changes.Groups = []diff.Group{first, third, second}
	var doc struct {
		Entries []data.Entry `json:"entries"`
	}
	if err := json.Unmarshal(write(t, data.JSON, r), &doc); err != nil {
		t.Fatal(err)
	}
	want := []data.Entry{
		{Groups: []string{first.ID, "2"}, Apps: []string{"web", "shop"}, Cause: cause},
		{Groups: []string{"3"}, Apps: []string{"other"}, Cause: cause},
	}
	if !reflect.DeepEqual(doc.Entries, want) {
		t.Errorf("entries: got %+v, want %+v", doc.Entries, want)
	}
}

func TestSARIF(t *testing.T) {
	var doc struct {
		Version string
		Runs    []struct {
			Tool struct {
				Driver struct {
					Name  string
					Rules []struct {
						ID      string `json:"id"`
						HelpURI string `json:"helpUri"`
					}
				}
			}
			Results []struct {
				RuleID    string `json:"ruleId"`
				RuleIndex int    `json:"ruleIndex"`
				Level     string
				Message   struct{ Text string }
				Locations []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine int }
					}
				}
				PartialFingerprints map[string]string
			}
		}
	}
	if err := json.Unmarshal(write(t, data.SARIF, sample()), &doc); err != nil {
		t.Fatal(err)
	}
	run := doc.Runs[0]
	if doc.Version != "2.1.0" || run.Tool.Driver.Name != "Sluice" || len(run.Results) != 4 {
		t.Fatalf("the doc is %+v", doc)
	}
	seen := map[string]bool{}
	for _, r := range run.Results {
		if run.Tool.Driver.Rules[r.RuleIndex].ID != r.RuleID || len(r.Locations) != 1 ||
			r.Locations[0].PhysicalLocation.Region.StartLine < 1 || r.Message.Text == "" {
			t.Errorf("result %+v", r)
		}
		seen[r.PartialFingerprints["sluice/v1"]] = true
	}
	if last := run.Results[2]; last.Level != "error" ||
		last.Locations[0].PhysicalLocation.ArtifactLocation.URI != "apps/web/app.yaml" ||
		!strings.Contains(last.Message.Text, "no tag") {
		t.Errorf("result %+v", last)
	}
	if len(seen) != 4 {
		t.Errorf("%d fingerprints for 4 findings", len(seen))
	}
	if empty := write(t, data.SARIF, &report.Review{Changes: &diff.ChangeSet{}}); !strings.Contains(string(empty),
		`"results": []`) {
		t.Errorf("without findings: %s", empty)
	}
}

func TestJUnit(t *testing.T) {
	text := write(t, data.JUnit, sample())
	var doc struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
		Suites   []struct {
			Name  string `xml:"name,attr"`
			Cases []struct {
				Name    string `xml:"name,attr"`
				Failure *struct {
					Message string `xml:"message,attr"`
				} `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(text, &doc); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if doc.Tests != 4 || doc.Failures != 1 || doc.Errors != 2 || len(doc.Suites) != 3 ||
		doc.Suites[2].Cases[0].Failure.Message != "no tag </failure><x>" {
		t.Errorf("the doc is %+v", doc)
	}
}

func FuzzHostileText(f *testing.F) {
	f.Add("]]></failure>\x00\u202e", "web")
	f.Fuzz(func(t *testing.T, message, app string) {
		r := sample()
		r.Findings.Introduced[0].Message, r.Findings.Introduced[0].App, r.Errors[0] = message, app, message
		var doc any
		if err := json.Unmarshal(write(t, data.SARIF, r), &doc); err != nil {
			t.Fatal(err)
		}
		dec := xml.NewDecoder(bytes.NewReader(write(t, data.JUnit, r)))
		cases := 0
		for {
			token, err := dec.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if start, ok := token.(xml.StartElement); ok && start.Name.Local == "testcase" {
				cases++
			}
		}
		if cases != 4 {
			t.Fatalf("%d cases", cases)
		}
	})
}
