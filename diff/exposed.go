package diff

import (
	"fmt"
	"maps"
	"reflect"
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
		for what := range had { // a balancer for everybody includes one for some, an internal one, and ports of nodes
			if kind, all := strings.CutPrefix(what, fromEverywhere); all {
				maps.DeleteFunc(has, func(other, path string) bool {
					return path != externalIPs && (kind == publicBalancer || strings.HasSuffix(other, kind))
				})
			}
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
		if !reflect.DeepEqual(get(j.before, "spec", "podSelector"), get(j.after, "spec", "podSelector")) {
			j.add(EffectExposed, RiskHigh, "spec.podSelector", "the policy selects other pods: those that it leaves may accept and send any traffic")
		}
		had, has := openings(j.before), openings(j.after)
		for what := range had { // all ports include each of them
			if direction, all := strings.CutSuffix(what, allPorts); all {
				maps.DeleteFunc(has, func(other, _ string) bool { return strings.HasPrefix(other, direction+" at ") })
			}
		}
		j.newly(EffectExposed, had, has, "the policy newly allows %s")
	}
}

const (
	fromEverywhere   = "from everywhere "
	publicBalancer   = "through a load balancer"
	internalBalancer = "through an internal load balancer"
	externalIPs      = "spec.externalIPs"
)

// reachable returns from where a Service can be reached besides the cluster's own network, each with the field.
func reachable(o manifest.Object) map[string]string {
	out := map[string]string{}
	if o == nil {
		return out
	}
	switch kind, _ := get(o, "spec", "type").(string); kind {
	case "LoadBalancer":
		annotations, _ := get(o, "metadata", "annotations").(map[string]any)
		sources, _ := get(o, "spec", "loadBalancerSourceRanges").([]any)
		if text, _ := annotations["service.beta.kubernetes.io/load-balancer-source-ranges"].(string); len(sources) == 0 &&
			text != "" {
			for r := range strings.SplitSeq(text, ",") {
				sources = append(sources, strings.TrimSpace(r))
			}
		}
		balancer := publicBalancer
		if isInternal(annotations) {
			balancer = internalBalancer
		}
		if len(sources) == 0 || slices.ContainsFunc(sources, everywhere) {
			out[fromEverywhere+balancer] = "spec.type"
			break
		}
		for _, s := range sources {
			out[fmt.Sprintf("from %v %s", s, balancer)] = "spec.loadBalancerSourceRanges"
		}
	case "NodePort":
		out["at a port of each node"] = "spec.type"
	}
	addresses, _ := get(o, "spec", "externalIPs").([]any)
	for _, a := range addresses {
		out[fmt.Sprintf("at the address %v", a)] = externalIPs
	}
	return out
}

// isInternal reports whether the annotations of a Service ask for a load balancer of the cloud's own network: those
// of AWS, Azure, Google, OpenStack and DigitalOcean.
func isInternal(annotations map[string]any) bool {
	if scheme, set := annotations["service.beta.kubernetes.io/aws-load-balancer-scheme"]; set {
		return scheme == "internal"
	}
	for key, value := range map[string]string{
		"service.beta.kubernetes.io/aws-load-balancer-internal":       "true",
		"service.beta.kubernetes.io/azure-load-balancer-internal":     "true",
		"service.beta.kubernetes.io/openstack-internal-load-balancer": "true",
		"service.beta.kubernetes.io/do-loadbalancer-network":          "INTERNAL",
		"networking.gke.io/load-balancer-type":                        "Internal",
		"cloud.google.com/load-balancer-type":                         "Internal",
	} {
		if annotations[key] == value {
			return true
		}
	}
	return false
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
			all, except := anybody(rule[d.peers])
			if !all {
				continue
			}
			what, path := d.words+" "+d.peers+" everybody"+except, fmt.Sprintf("spec.%s[%d]", d.list, i)
			ports, _ := rule["ports"].([]any)
			for _, p := range ports {
				port, _ := p.(map[string]any)
				name := fmt.Sprint(valueOr(port["port"], "any"))
				if end, ranged := port["endPort"]; ranged {
					name += fmt.Sprintf("-%v", end)
				}
				if protocol, set := port["protocol"]; set && protocol != "TCP" {
					name += fmt.Sprintf("/%v", protocol)
				}
				out[what+" at port "+name] = path
			}
			if len(ports) == 0 {
				out[what+allPorts] = path
			}
		}
	}
	return out
}

const allPorts = " at all ports"

func valueOr(v, otherwise any) any {
	if v == nil {
		return otherwise
	}
	return v
}

// anybody reports whether the peers of a rule include every address or every pod, and which addresses it excepts. A rule
// without peers allows all.
func anybody(peers any) (all bool, except string) {
	list, _ := peers.([]any)
	for _, p := range list {
		peer, _ := p.(map[string]any)
		namespaces, ofAny := peer["namespaceSelector"].(map[string]any)
		pods, _ := peer["podSelector"].(map[string]any)
		switch {
		case ofAny && len(namespaces) == 0 && len(pods) == 0:
			return true, ""
		case everywhere(get(peer, "ipBlock", "cidr")):
			if list, _ := get(peer, "ipBlock", "except").([]any); len(list) > 0 {
				all, except = true, fmt.Sprintf(" except %v", list)
				continue
			}
			return true, ""
		}
	}
	return all || len(list) == 0, except
}
