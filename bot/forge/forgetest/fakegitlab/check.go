package fakegitlab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// documented is an address with the parameters and the attributes that GitLab documents for it.
type documented struct {
	method, path string // path as an expression below /api/v4/
	parameters   []string
	list         bool
	attributes   map[string]string // name → types: string, number, boolean, object, array; with ? it may be null
	source       string
}

const docs = "https://docs.gitlab.com/api/"

func userShape() map[string]string {
	return map[string]string{
		"id": "number", "username": "string", "name": "string", "state": "string",
		"avatar_url": "string?", "web_url": "string",
	}
}

func with(base map[string]string, more map[string]string) map[string]string {
	maps.Copy(base, more)
	return base
}

// documentation returns the part of the API that Sluice uses.
func documentation() []documented {
	mr := map[string]string{
		"id": "number", "iid": "number", "project_id": "number", "title": "string", "description": "string?",
		"state": "string", "created_at": "string", "updated_at": "string",
		"merged_at": "string?", "closed_at": "string?", "target_branch": "string", "source_branch": "string",
		"author": "object", "labels": "array", "draft": "boolean", "reviewers": "array",
		"source_project_id": "number?", "target_project_id": "number", "sha": "string", "merge_commit_sha": "string?",
		"squash_commit_sha": "string?", "web_url": "string", "references": "object",
	}
	note := map[string]string{
		"id": "number", "body": "string", "author": "object", "created_at": "string", "updated_at": "string",
		"system": "boolean", "noteable_id": "number",
		"noteable_type": "string", "noteable_iid": "number", "project_id": "number", "resolvable": "boolean",
		"internal": "boolean",
	}
	emoji := map[string]string{
		"id": "number", "name": "string", "user": "object", "created_at": "string",
		"updated_at": "string", "awardable_id": "number", "awardable_type": "string",
	}
	status := map[string]string{
		"id": "number", "sha": "string", "ref": "string", "status": "string", "name": "string", "target_url": "string?",
		"description": "string?", "allow_failure": "boolean",
		"created_at": "string", "started_at": "string?", "finished_at": "string?", "author": "object",
	}
	member := with(userShape(), map[string]string{"access_level": "number"})
	deployment := map[string]string{
		"id": "number", "iid": "number", "ref": "string", "sha": "string", "status": "string", "created_at": "string",
		"user": "object", "environment": "object", "deployable": "object?",
	}
	one, paged := `[^/]+`, []string{"page", "per_page"}
	m := `projects/` + one + `/merge_requests`
	return []documented{
		{"GET", `user`, nil, false, with(userShape(), map[string]string{"bot": "boolean"}), docs + "users/"},
		{"GET", `users`, append([]string{"username"}, paged...), true, userShape(), docs + "users/"},
		{
			"GET", `groups/` + one,
			[]string{"with_projects", "with_custom_attributes"},
			false,
			map[string]string{"id": "number", "full_path": "string", "name": "string"},
			docs + "groups/",
		},
		{"GET", `groups/` + one + `/members/all/\d+`, nil, false, member, docs + "group_members/"},
		{"GET", `projects`, append([]string{"archived", "membership", "simple", "min_access_level", "order_by", "sort"},
			paged...), true, map[string]string{
			"id": "number", "path_with_namespace": "string",
			"default_branch": "string", "web_url": "string",
		}, docs + "projects/"},
		{"GET", `projects/` + one, nil, false, map[string]string{
			"id": "number", "path_with_namespace": "string",
			"visibility": "string", "default_branch": "string", "web_url": "string",
		}, docs + "projects/"},
		{"GET", `projects/` + one + `/members/all/\d+`, nil, false, member, docs + "project_members/"},
		{
			"GET", `projects/` + one + `/protected_branches`, append([]string{"search"}, paged...), true,
			map[string]string{
				"id": "number", "name": "string", "push_access_levels": "array", "merge_access_levels": "array",
				"allow_force_push": "boolean", "code_owner_approval_required": "boolean",
			},
			docs + "protected_branches/",
		},
		{"GET", m, append([]string{"state", "order_by", "sort", "target_branch", "source_branch", "updated_after"},
			paged...), true, mr, docs + "merge_requests/"},
		{"POST", m, []string{"source_branch", "target_branch", "title", "description", "labels"}, false, mr, docs +
			"merge_requests/"},
		{"GET", m + `/\d+`, nil, false, mr, docs + "merge_requests/"},
		{"PUT", m + `/\d+`, []string{
			"title", "description", "state_event", "target_branch", "add_labels", "remove_labels", "reviewer_ids",
		}, false, mr, docs +
			"merge_requests/"},
		{"GET", m + `/\d+/notes`, append([]string{"order_by", "sort"}, paged...), true, note, docs + "notes/"},
		{"POST", m + `/\d+/notes`, []string{"body", "internal"}, false, note, docs + "notes/"},
		{"GET", m + `/\d+/notes/\d+`, nil, false, note, docs + "notes/"},
		{"PUT", m + `/\d+/notes/\d+`, []string{"body"}, false, note, docs + "notes/"},
		{"DELETE", m + `/\d+/notes/\d+`, nil, false, nil, docs + "notes/"},
		{"GET", m + `/\d+/notes/\d+/award_emoji`, paged, true, emoji, docs + "emoji_reactions/"},
		{"POST", m + `/\d+/notes/\d+/award_emoji`, []string{"name"}, false, emoji, docs + "emoji_reactions/"},
		{
			"GET", `projects/` + one + `/repository/commits/[0-9a-f]{40}/statuses`,
			append([]string{"ref", "stage", "name", "all", "pipeline_id"}, paged...), true, status, docs + "commits/",
		},
		{"POST", `projects/` + one + `/statuses/[0-9a-f]{40}`, []string{
			"state", "ref", "name", "context", "target_url",
			"description", "coverage", "pipeline_id",
		}, false, status, docs + "commits/"},
		{
			"GET", `projects/` + one + `/deployments`,
			append([]string{"order_by", "sort", "environment", "status", "updated_after", "updated_before"}, paged...),
			true, deployment, docs + "deployments/",
		},
		{
			"POST", `projects/` + one + `/deployments`,
			[]string{"environment", "sha", "ref", "tag", "status"},
			false,
			deployment, docs + "deployments/",
		},
		{"PUT", `projects/` + one + `/deployments/\d+`, []string{"status"}, false, deployment, docs + "deployments/"},
		{
			"PUT", `projects/` + one + `/environments/\d+`,
			[]string{"external_url", "tier", "description"},
			false,
			map[string]string{"id": "number", "name": "string", "slug": "string", "external_url": "string?"},
			docs + "environments/",
		},
		{"GET", `projects/` + one + `/repository/commits/[0-9a-f]{40}/merge_requests`, paged, true, mr, docs +
			"commits/"},
	}
}

func lookUp(r *http.Request) (documented, error) {
	if r.URL.Path == graphPath && r.Method == http.MethodPost { // the fake holds the query against the schema
		return documented{"POST", graphPath, []string{"query", "variables"}, false, nil, docs + "graphql/"}, nil
	}
	path := strings.TrimPrefix(r.URL.EscapedPath(), "/api/v4/")
	for _, d := range documentation() {
		if ok, err := regexp.MatchString("^"+d.path+"$", path); err == nil && ok && d.method == r.Method {
			return d, nil
		}
	}
	return documented{}, errors.New("GitLab documents no such address")
}

// CheckRequest compares a request with the documentation: address, method and parameters.
func CheckRequest(r *http.Request) error {
	d, err := lookUp(r)
	if err != nil {
		return err
	}
	names := []string{}
	for name := range r.URL.Query() {
		names = append(names, name)
	}
	if r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return err
		}
		var v map[string]any
		if err := json.NewDecoder(body).Decode(&v); err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("body: %w", err)
		}
		for name := range v {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if !slices.Contains(d.parameters, name) {
			return fmt.Errorf("%s documents no parameter %q", d.source, name)
		}
	}
	return nil
}

// CheckAnswer compares an answer with the documentation: attributes and their types.
func CheckAnswer(r *http.Request, code int, body []byte) error {
	d, err := lookUp(r)
	if err != nil || code >= http.StatusBadRequest || code == http.StatusNoContent {
		return err
	}
	var list []map[string]any
	if d.list {
		err = json.Unmarshal(body, &list)
	} else {
		list = make([]map[string]any, 1)
		err = json.Unmarshal(body, &list[0])
	}
	if err != nil {
		return fmt.Errorf("%s: %w", d.source, err)
	}
	for _, v := range list {
		for name, types := range d.attributes {
			value, there := v[name]
			if !there || !isType(value, types) {
				return fmt.Errorf("%s: %s is %T, there: %t; documented is %s", d.source, name, value, there, types)
			}
		}
	}
	return nil
}

func isType(v any, types string) bool {
	if v == nil {
		return strings.HasSuffix(types, "?")
	}
	name := "object"
	switch v.(type) {
	case string:
		name = "string"
	case float64:
		name = "number"
	case bool:
		name = "boolean"
	case []any:
		name = "array"
	}
	return name == strings.TrimSuffix(types, "?")
}
