package diff

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// exposed reports that pods newly accept or send traffic that nothing of theirs did before: a Service that becomes
// reachable from outside of the cluster, a NetworkPolicy that goes or lets everybody through. A new NetworkPolicy
// restricts, unless others select the same pods; that is not known here.
func (j *judgement) exposed() {
	switch {
	case j.is("", "Service"):
		had, has := reachable(j.before), reachable(j.after)
		if _, all := had[fromEverywhere]; all { // which includes every range
			maps.DeleteFunc(has, func(_, path string) bool { return path == sourceRanges })
		}
		j.newly(EffectExposed, had, has, "the Service is newly reachable %s")
	case j.is("networking.k8s.io", "NetworkPolicy") && j.after == nil:
		j.add(EffectExposed, RiskHigh, "", "pods that no other NetworkPolicy selects accept and send any traffic")
	case j.is("networking.k8s.io", "NetworkPolicy") && j.before != nil:
		now := isolates(j.after)
		for _, direction := range slices.Sorted(maps.Keys(isolates(j.before))) {
			if !now[direction] {
				j.add(EffectExposed, RiskHigh, "spec.policyTypes", "the policy no longer restricts %s", direction)
			}
		}
		j.newly(EffectExposed, openings(j.before), openings(j.after), "the policy newly allows %s")
	}
}

const (
	fromEverywhere = "from everywhere through a load balancer"
	sourceRanges   = "spec.loadBalancerSourceRanges"
)

// reachable returns from where a Service can be reached besides the cluster's own network, each with the field.
func reachable(o manifest.Object) map[string]string {
	out := map[string]string{}
	if o == nil {
		return out
	}
	switch kind, _ := get(o, "spec", "type").(string); kind {
	case "LoadBalancer":
		sources, _ := get(o, "spec", "loadBalancerSourceRanges").([]any)
		if slices.ContainsFunc(sources, everywhere) {
			sources = nil
		}
		internal := false
		annotations, _ := get(o, "metadata", "annotations").(map[string]any)
		for k, v := range annotations { // AWS, Azure, Google, OpenStack and others: a balancer of the own network
			internal = internal || strings.Contains(k, "internal") && (v == "true" || v == true) ||
				strings.HasSuffix(k, "load-balancer-type") && (v == "Internal" || v == "internal") ||
				strings.HasSuffix(k, "load-balancer-scheme") && v == "internal"
		}
		switch {
		case internal:
			out["through an internal load balancer"] = "spec.type"
		case len(sources) == 0:
			out[fromEverywhere] = "spec.type"
		}
		for _, s := range sources {
			out[fmt.Sprintf("from %v through a load balancer", s)] = sourceRanges
		}
	case "NodePort":
		out["at a port of each node"] = "spec.type"
	}
	addresses, _ := get(o, "spec", "externalIPs").([]any)
	for _, a := range addresses {
		out[fmt.Sprintf("at the address %v", a)] = "spec.externalIPs"
	}
	return out
}

func everywhere(cidr any) bool { return cidr == "0.0.0.0/0" || cidr == "::/0" }

// isolates returns the directions that a NetworkPolicy restricts, by the defaults of policyTypes
// (https://kubernetes.io/docs/concepts/services-networking/network-policies/).
func isolates(o manifest.Object) map[string]bool {
	out := map[string]bool{}
	types, _ := get(o, "spec", "policyTypes").([]any)
	for _, t := range types {
		switch t {
		case "Ingress":
			out[incoming] = true
		case "Egress":
			out[outgoing] = true
		}
	}
	if len(types) > 0 {
		return out
	}
	out[incoming] = true
	if rules, _ := get(o, "spec", "egress").([]any); len(rules) > 0 {
		out[outgoing] = true
	}
	return out
}

const (
	incoming = "incoming traffic"
	outgoing = "outgoing traffic"
)

// openings returns what a NetworkPolicy allows from or to everybody, each with the field.
func openings(o manifest.Object) map[string]string {
	out := map[string]string{}
	restricted := isolates(o)
	for _, d := range []struct{ words, list, peers string }{
		{incoming, "ingress", "from"}, {outgoing, "egress", "to"},
	} {
		rules, _ := get(o, "spec", d.list).([]any)
		if !restricted[d.words] {
			continue
		}
		for i, r := range rules {
			rule, _ := r.(map[string]any)
			if !anybody(rule[d.peers]) {
				continue
			}
			what := d.words + " " + d.peers + " everybody"
			if ports, _ := rule["ports"].([]any); len(ports) > 0 {
				for _, p := range ports {
					port, _ := p.(map[string]any)
					out[fmt.Sprintf("%s at port %v", what, valueOr(port["port"], "any"))] = fmt.Sprintf("spec.%s[%d]", d.list, i)
				}
				continue
			}
			out[what+" at all ports"] = fmt.Sprintf("spec.%s[%d]", d.list, i)
		}
	}
	return out
}

func valueOr(v, otherwise any) any {
	if v == nil {
		return otherwise
	}
	return v
}

// anybody reports whether the peers of a rule include every address. A rule without peers allows all.
func anybody(peers any) bool {
	list, _ := peers.([]any)
	if len(list) == 0 {
		return true
	}
	return slices.ContainsFunc(list, func(p any) bool {
		peer, _ := p.(map[string]any)
		return everywhere(get(peer, "ipBlock", "cidr"))
	})
}
