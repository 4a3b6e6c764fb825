package fakegithub

import (
	"net/http"
	"slices"
	"unicode/utf8"
)

const (
	maxComment     = 65536
	maxDescription = 140
	maxAnnotations = 50
	maxSummary     = 65535
)

func listComments(c *call) answer {
	p := c.pull()
	if p == nil {
		return notFound()
	}
	list := []fields{}
	for _, one := range p.comments {
		list = append(list, c.s.commentFields(c.repo, p, one))
	}
	return c.page(list)
}

func (c *call) text() (string, answer, bool) {
	var asked struct{ Body string }
	switch {
	case !c.read(&asked):
		return "", unreadable(), false
	case asked.Body == "":
		return "", invalid("IssueComment", "body", "missing_field", "Body cannot be blank"), false
	case utf8.RuneCountInString(asked.Body) > maxComment:
		return "", invalid("IssueComment", "body", "unprocessable", "body is too long (maximum is 65536 characters)"), false
	}
	return asked.Body, answer{}, true
}

func createComment(c *call) answer {
	p := c.pull()
	if p == nil {
		return notFound()
	}
	body, refused, fine := c.text()
	if !fine {
		return refused
	}
	one := c.s.say(c.repo, p, c.who.account(), body)
	return answer{code: http.StatusCreated, value: c.s.commentFields(c.repo, p, one)}
}

func (c *call) comment() (*pull, int) { return c.repo.comment(number(c.r.PathValue("id"))) }

func getComment(c *call) answer {
	p, i := c.comment()
	if p == nil {
		return notFound()
	}
	return ok(c.s.commentFields(c.repo, p, p.comments[i]))
}

func (c *call) mayEdit(one *comment) bool { return one.author == c.who.account() || c.level() >= 3 }

func editComment(c *call) answer {
	p, i := c.comment()
	if p == nil {
		return notFound()
	}
	if !c.mayEdit(p.comments[i]) {
		return problem(http.StatusForbidden, "Must have admin rights to Repository.")
	}
	body, refused, fine := c.text()
	if !fine {
		return refused
	}
	p.comments[i].body, p.comments[i].updated = body, c.s.now()
	return ok(c.s.commentFields(c.repo, p, p.comments[i]))
}

func deleteComment(c *call) answer {
	p, i := c.comment()
	if p == nil {
		return notFound()
	}
	if !c.mayEdit(p.comments[i]) {
		return problem(http.StatusForbidden, "Must have admin rights to Repository.")
	}
	p.comments = slices.Delete(p.comments, i, i+1)
	return answer{code: http.StatusNoContent}
}

func createReaction(c *call) answer {
	p, i := c.comment()
	if p == nil {
		return notFound()
	}
	var asked struct{ Content string }
	if !c.read(&asked) {
		return unreadable()
	}
	if !slices.Contains([]string{"+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes"}, asked.Content) {
		return invalid("Reaction", "content", "invalid", "")
	}
	one := p.comments[i]
	for _, r := range one.reactions {
		if r.user == c.who.account() && r.content == asked.Content {
			return ok(c.s.reactionFields(r))
		}
	}
	r := &reaction{id: c.s.id(), user: c.who.account(), content: asked.Content, created: c.s.now()}
	one.reactions = append(one.reactions, r)
	return answer{code: http.StatusCreated, value: c.s.reactionFields(r)}
}

func createStatus(c *call) answer {
	sha := c.r.PathValue("sha")
	if !c.repo.has(sha) {
		return invalid("Status", "sha", "custom", "No commit found for SHA: "+sha)
	}
	var asked struct {
		State, Context, Description string
		TargetURL                   string `json:"target_url"`
	}
	if !c.read(&asked) {
		return unreadable()
	}
	if !slices.Contains([]string{"error", "failure", "pending", "success"}, asked.State) {
		return invalid("Status", "state", "inclusion", "State is not included in the list")
	}
	if utf8.RuneCountInString(asked.Description) > maxDescription {
		return invalid("Status", "description", "custom", "description is too long (maximum is 140 characters)")
	}
	if asked.Context == "" {
		asked.Context = "default"
	}
	t := c.s.report(c.repo, sha, asked.State, asked.Context, asked.Description, asked.TargetURL, c.who.account())
	return answer{code: http.StatusCreated, value: c.s.statusFields(c.repo, t)}
}

func listStatuses(c *call) answer {
	sha := c.r.PathValue("sha")
	if !c.repo.has(sha) {
		return notFound()
	}
	list := []fields{}
	for i := len(c.repo.statuses) - 1; i >= 0; i-- {
		if c.repo.statuses[i].sha == sha {
			list = append(list, c.s.statusFields(c.repo, c.repo.statuses[i]))
		}
	}
	return c.page(list)
}

func listChecks(c *call) answer {
	sha, name := c.r.PathValue("sha"), c.r.URL.Query().Get("check_name")
	if !c.repo.has(sha) {
		return invalid("Commit", "sha", "invalid", "No commit found for SHA: "+sha)
	}
	list := []fields{}
	seen := map[string]bool{}
	for i := len(c.repo.checks) - 1; i >= 0; i-- {
		k := c.repo.checks[i]
		if k.sha != sha || name != "" && k.name != name || seen[k.name] {
			continue
		}
		seen[k.name] = true
		list = append(list, c.s.checkFields(c.repo, k))
	}
	part, link := c.cut(list)
	return answer{code: http.StatusOK, link: link, value: fields{"total_count": len(list), "check_runs": part}}
}

type askedCheck struct {
	Name       string
	HeadSHA    string `json:"head_sha"`
	Status     string
	Conclusion string
	DetailsURL string `json:"details_url"`
	Output     *struct {
		Title, Summary, Text string
		Annotations          []struct {
			Path            string
			StartLine       int    `json:"start_line"`
			EndLine         int    `json:"end_line"`
			AnnotationLevel string `json:"annotation_level"`
			Message, Title  string
		}
	}
}

func (a *askedCheck) refusal() (answer, bool) {
	switch {
	case a.Output != nil && len(a.Output.Annotations) > maxAnnotations:
		return invalid("CheckRun", "annotations", "invalid", "No more than 50 items are allowed; "+itoa(int64(len(a.Output.Annotations)))+" were supplied."), true
	case a.Output != nil && len(a.Output.Summary) > maxSummary:
		return invalid("CheckRun", "summary", "invalid", "Only 65535 characters are allowed; "+itoa(int64(len(a.Output.Summary)))+" were supplied."), true
	case a.Status == "completed" && a.Conclusion == "":
		return invalid("CheckRun", "conclusion", "missing_field", ""), true
	}
	return answer{}, false
}

func (c *call) changeCheck(k *check, a *askedCheck) {
	if a.Status != "" {
		k.status = a.Status
	}
	if a.Conclusion != "" {
		k.status, k.conclusion, k.completed = "completed", a.Conclusion, c.s.now()
	}
	if a.DetailsURL != "" {
		k.details = a.DetailsURL
	}
	if a.Output == nil {
		return
	}
	k.title, k.summary, k.text = a.Output.Title, a.Output.Summary, a.Output.Text
	for _, n := range a.Output.Annotations {
		k.annotations = append(k.annotations, Annotation{n.Path, n.StartLine, n.AnnotationLevel, n.Title, n.Message})
	}
}

func createCheck(c *call) answer {
	var asked askedCheck
	if c.who.app == nil && c.who.job == nil {
		return problem(http.StatusForbidden, "You must authenticate via a GitHub App.")
	}
	if !c.read(&asked) {
		return unreadable()
	}
	if !c.repo.has(asked.HeadSHA) {
		return invalid("CheckRun", "head_sha", "invalid", "No commit found for SHA: "+asked.HeadSHA)
	}
	if a, bad := asked.refusal(); bad {
		return a
	}
	k := &check{id: c.s.id(), app: c.who.app, sha: asked.HeadSHA, name: asked.Name, status: "queued", started: c.s.now()}
	c.changeCheck(k, &asked)
	c.repo.checks = append(c.repo.checks, k)
	return answer{code: http.StatusCreated, value: c.s.checkFields(c.repo, k)}
}

func editCheck(c *call) answer {
	for _, k := range c.repo.checks {
		if itoa(k.id) != c.r.PathValue("id") {
			continue
		}
		var asked askedCheck
		if k.app != c.who.app {
			return problem(http.StatusForbidden, "Invalid app_id `"+c.r.PathValue("id")+"` - check run can only be modified by the GitHub App that created it.")
		}
		if !c.read(&asked) {
			return unreadable()
		}
		if a, bad := asked.refusal(); bad {
			return a
		}
		c.changeCheck(k, &asked)
		return ok(c.s.checkFields(c.repo, k))
	}
	return notFound()
}

func listDeliveries(c *call) answer {
	list := []fields{}
	for i := len(c.s.deliveries) - 1; i >= 0; i-- {
		d := c.s.deliveries[i]
		status := "OK"
		if d.Code < 200 || d.Code >= 300 {
			status = "Invalid HTTP Response: " + itoa(int64(d.Code))
		}
		list = append(list, fields{
			"id": d.id, "guid": d.GUID, "delivered_at": stamp(d.At), "redelivery": d.redelivery, "duration": 0.1, "status": status, "status_code": d.Code,
			"event": d.Event, "action": nil, "installation_id": nil, "repository_id": nil,
		})
	}
	return c.page(list)
}

func redeliver(c *call) answer {
	for _, d := range c.s.deliveries {
		if itoa(d.id) != c.r.PathValue("id") {
			continue
		}
		c.s.deliveries = append(c.s.deliveries, &delivery{Delivery: Delivery{GUID: d.GUID, Event: d.Event, Payload: d.Payload, Code: http.StatusOK, At: c.s.now()}, id: c.s.id(), redelivery: true})
		if c.s.o.OnEvent != nil && d.Payload != nil {
			c.s.events = append(c.s.events, event{d.Event, d.Payload})
		}
		return answer{code: http.StatusAccepted, value: fields{}}
	}
	return notFound()
}
