package fakegithub

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

// run is what a request says of a check run.
type run struct {
	Name       *string
	HeadSHA    string  `json:"head_sha"`
	DetailsURL *string `json:"details_url"`
	Status     *string
	Conclusion *string
	Output     *struct {
		Title, Summary, Text string
		Annotations          []Annotation
	}
}

// apply changes a check run. Annotations are added to those that are there.
func (in *run) apply(c *call, x *check) (answer, bool) {
	if o := in.Output; o != nil {
		if n := utf8.RuneCountInString(o.Summary); n > 65535 {
			return invalid("CheckRun", "summary", "invalid",
				fmt.Sprintf("Only 65535 characters are allowed; %d were supplied.", n)), false
		}
		if len(o.Annotations) > 50 {
			return invalid("CheckRun", "annotations", "invalid", "No more than 50 annotations are allowed."), false
		}
		x.title, x.summary, x.text = o.Title, o.Summary, o.Text
		x.annotations = append(x.annotations, o.Annotations...)
	}
	for to, from := range map[*string]*string{&x.name: in.Name, &x.details: in.DetailsURL, &x.status: in.Status} {
		if from != nil {
			*to = *from
		}
	}
	if in.Conclusion != nil {
		x.conclusion, x.status = *in.Conclusion, "completed"
	}
	if x.status == "completed" && x.conclusion == "" {
		return invalid("CheckRun", "conclusion", "missing_field", ""), false
	}
	switch {
	case x.status == "completed" && x.completed.IsZero():
		x.completed = c.s.now()
	case x.status != "completed":
		x.conclusion = ""
	}
	return answer{}, true
}

func createCheck(c *call) answer {
	if c.who.install == nil {
		return problem(http.StatusForbidden, "You must authenticate via a GitHub App.")
	}
	if c.who.app.ReadChecks {
		return problem(http.StatusForbidden, "Resource not accessible by integration")
	}
	var in run
	if !c.read(&in) {
		return unreadable()
	}
	if !c.repo.has(in.HeadSHA) {
		return noCommit(in.HeadSHA)
	}
	x := &check{id: c.s.id(), app: c.who.app, sha: in.HeadSHA, status: "queued", started: c.s.now()}
	if a, ok := in.apply(c, x); !ok {
		return a
	}
	c.repo.checks = append(c.repo.checks, x)
	return answer{code: 201, value: c.s.check(c.repo, x)}
}

func updateCheck(c *call) answer {
	i := slices.IndexFunc(c.repo.checks, func(x *check) bool { return x.id == c.id() })
	if i < 0 || c.who.app == nil || c.repo.checks[i].app != c.who.app {
		return notFound()
	}
	var in run
	if !c.read(&in) {
		return unreadable()
	}
	x := *c.repo.checks[i]
	if a, ok := in.apply(c, &x); !ok {
		return a
	}
	c.repo.checks[i] = &x
	return answer{code: 200, value: c.s.check(c.repo, &x)}
}

// listChecks lists the newest run of each App and name first, and the others only if all are asked for.
func listChecks(c *call) answer {
	if c.who.app != nil && c.who.app.NoChecks {
		return problem(http.StatusForbidden, "Resource not accessible by integration")
	}
	q := c.r.URL.Query()
	seen := map[string]bool{}
	var all []fields
	for _, x := range slices.Backward(c.repo.checks) {
		key := x.app.Slug + " " + strings.ToLower(x.name)
		if x.sha != c.r.PathValue("sha") || q.Get("check_name") != "" && q.Get("check_name") != x.name ||
			seen[key] && q.Get("filter") != "all" {
			continue
		}
		seen[key] = true
		all = append(all, c.s.check(c.repo, x))
	}
	some, link := c.page(all)
	return answer{code: 200, value: fields{"total_count": len(all), "check_runs": some}, link: link}
}
