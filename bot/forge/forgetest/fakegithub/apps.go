package fakegithub

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

func (s *Server) appRoutes() {
	s.handle("GET /app", asApp, func(c *call) answer { return answer{code: 200, value: s.app(c.who.app)} })
	s.handle("GET /app/installations", asApp, func(c *call) answer {
		var all []fields
		for _, in := range c.who.app.installs {
			all = append(all, s.installation(c.who.app, in))
		}
		return c.paged(all)
	})
	s.handle("GET /installation/repositories", signedIn, installationRepositories)
	s.handle("GET /repos/{owner}/{repo}/installation", asApp, func(c *call) answer {
		r := s.repo(c.r.PathValue("owner") + "/" + c.r.PathValue("repo"))
		for _, in := range c.who.app.installs {
			if r != nil && in.owner == r.owner {
				return answer{code: 200, value: s.installation(c.who.app, in)}
			}
		}
		return notFound()
	})
	s.handle("POST /app/installations/{id}/access_tokens", asApp, accessToken)
	s.handle("GET /app/hook/deliveries", asApp, listDeliveries)
	s.handle("POST /app/hook/deliveries/{id}/attempts", asApp, redeliver)
}

// installationRepositories lists what an installation's token reaches.
func installationRepositories(c *call) answer {
	if c.who.install == nil {
		return c.forbidden()
	}
	var all []fields
	for _, r := range c.s.sorted() {
		if r.owner == c.who.install.owner && (c.who.only == nil ||
			slices.Contains(c.who.only, strings.ToLower(r.path()))) {
			all = append(all, c.s.repository(r))
		}
	}
	some, link := c.page(all)
	return answer{code: 200, value: fields{"total_count": len(all), "repositories": some}, link: link}
}

func accessToken(c *call) answer {
	var in struct{ Repositories []string }
	if len(c.body) > 0 && !c.read(&in) {
		return unreadable()
	}
	for _, x := range c.who.app.installs {
		if x.id != c.id() {
			continue
		}
		who := identity{app: c.who.app, user: c.who.app.account, install: x, bot: true, end: ends(c.s.now())}
		for _, name := range in.Repositories {
			path := strings.ToLower(x.owner.login + "/" + name)
			if c.s.repos[path] == nil {
				return invalid("Installation", "repositories", "invalid",
					"There is at least one repository that does not exist or is not accessible to the parent installation.")
			}
			who.only = append(who.only, path)
		}
		token := fmt.Sprintf("ghs_installation%d", c.s.id())
		c.s.tokens[token] = who
		return answer{code: 201, value: fields{
			"token": token, "expires_at": stamp(who.end),
			"permissions": permissions(c.who.app), "repository_selection": "all",
		}}
	}
	return notFound()
}

// listDeliveries lists the newest first, by a cursor: the id of the first on the next page.
func listDeliveries(c *call) answer {
	q := c.r.URL.Query()
	size := min(max(atoi(q.Get("per_page"), 30), 1), 100)
	from, err := strconv.ParseInt(q.Get("cursor"), 10, 64)
	some := []fields{}
	for _, d := range slices.Backward(c.s.deliveries) {
		if err == nil && d.id > from {
			continue
		}
		if len(some) == size {
			u := *c.r.URL
			u.Scheme, u.Host = "http", c.r.Host
			q.Set("cursor", fmt.Sprint(d.id))
			u.RawQuery = q.Encode()
			return answer{code: 200, value: some, link: fmt.Sprintf("<%s>; rel=%q", u.String(), "next")}
		}
		text := "OK"
		if d.Status < 200 || d.Status > 299 {
			text = "failed"
		}
		some = append(some, fields{
			"id": d.id, "guid": d.GUID, "delivered_at": d.At.UTC().Format(time.RFC3339), "redelivery": d.redelivery,
			"duration": 0.2, "status": text,
			"status_code": d.Status, "event": d.Event, "action": orNull(d.Action), "installation_id": nil,
			"repository_id": nil,
		})
	}
	return answer{code: 200, value: some}
}

func redeliver(c *call) answer {
	for _, d := range c.s.deliveries {
		if d.id == c.id() {
			again := &delivery{Delivery: d.Delivery, id: c.s.id(), redelivery: true}
			again.At, again.Status = c.s.now(), http.StatusOK
			if send := c.s.redeliver; send != nil {
				again.Status = send(d.Delivery)
			}
			c.s.deliveries = append(c.s.deliveries, again)
			return answer{code: http.StatusAccepted, value: fields{}}
		}
	}
	return notFound()
}
