package diff_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/diff"
)

const limited = `apiVersion: apps/v1
kind: Deployment
metadata: {name: d, namespace: ns}
spec:
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d}}
    spec:
      containers:
      - name: c
        image: "registry.example.com/a:1"
        ports: [{containerPort: 80}]
        resources: {limits: {cpu: 1000m, memory: 1Gi}}
`

// The API server stores the same object for both sides, so that nothing happens in the cluster.
func TestOtherFormsOfAValueChangeNothing(t *testing.T) {
	service := "apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: ns}\nspec: {ports: [{port: 80}], selector: {app: d}}\n"
	autoscaler := "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: h, namespace: ns}\nspec: {maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: d}, metrics: [{type: Resource, resource: {name: cpu, target: {type: AverageValue, averageValue: 1000m}}}]}\n"
	for name, tc := range map[string][2]string{
		"quantities": {limited, strings.Replace(limited, "cpu: 1000m, memory: 1Gi", "cpu: 1, memory: 1024Mi",
			1)},
		"a quantity as text": {limited, strings.Replace(limited, "cpu: 1000m", `cpu: "1"`, 1)},
		"a protocol": {limited, strings.Replace(limited, "containerPort: 80",
			"containerPort: 80, protocol: TCP", 1)},
		"a pull policy": {limited, strings.Replace(limited, "        ports:",
			"        imagePullPolicy: IfNotPresent\n        ports:", 1)},
		"a strategy": {limited, strings.Replace(limited, "spec:\n  selector",
			"spec:\n  strategy: {type: RollingUpdate}\n  selector", 1)},
		"an empty context": {limited, strings.Replace(limited, "    spec:\n",
			"    spec:\n      securityContext: {}\n", 1)},
		"a field that is off": {limited, strings.Replace(limited, "    spec:\n",
			"    spec:\n      hostNetwork: false\n", 1)},
		"a target port": {service, strings.Replace(service, "port: 80", "port: 80, targetPort: 80, protocol: TCP",
			1)},
		"a type of Service": {service, strings.Replace(service, "spec: {", "spec: {type: ClusterIP, ", 1)},
		"an average value":  {autoscaler, strings.Replace(autoscaler, "1000m", "1", 1)},
	} {
		for direction, pair := range map[string][2]string{"added": tc, "removed": {tc[1], tc[0]}} {
			t.Run(name+"/"+direction, func(t *testing.T) {
				if pair[0] == pair[1] {
					t.Fatal("both sides are equal: the case tests nothing")
				}
				c := change(t, pair[0], pair[1])
				if len(c.Fields) != 0 || c.Rolls || c.Risk != diff.RiskNone || len(c.Noise) == 0 {
					t.Errorf("fields %+v, noise %+v, rolls %t, risk %s; want noise that rolls nothing", c.Fields,
						c.Noise, c.Rolls, c.Risk)
				}
			})
		}
	}
}

func TestAValueThatDiffersIsAChange(t *testing.T) {
	custom := "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: ns}\nspec: {cpu: 1000m}\n"
	unknown := strings.Replace(limited, "        ports:", "        notAField: x\n        ports:", 1)
	for name, tc := range map[string]struct {
		before, after string
		path          string
	}{
		"replicas that an autoscaler may own": {limited, strings.Replace(limited, "spec:\n  selector",
			"spec:\n  replicas: 1\n  selector", 1), "spec.replicas"},
		"a quantity": {
			limited, strings.Replace(limited, "1000m", "1001m", 1),
			"spec.template.spec.containers[name=c].resources.limits.cpu",
		},
		"a policy not default": {
			limited, strings.Replace(limited, "        ports:",
				"        imagePullPolicy: Always\n        ports:", 1),
			"spec.template.spec.containers[name=c].imagePullPolicy",
		},
		"another default": {
			strings.Replace(limited, "a:1\"", "a\"", 1),
			strings.Replace(strings.Replace(limited, "a:1\"", "a\"", 1), "        ports:",
				"        imagePullPolicy: IfNotPresent\n        ports:", 1),
			"spec.template.spec.containers[name=c].imagePullPolicy",
		},
		"a custom kind":        {custom, strings.Replace(custom, "1000m", "1", 1), "spec.cpu"},
		"a field nobody knows": {limited, unknown, "spec.template.spec.containers[name=c].notAField"},
		"beside an unknown one": {
			unknown, strings.Replace(unknown, "1000m", "1", 1),
			"spec.template.spec.containers[name=c].resources.limits.cpu",
		},
		"a value beside a form": {limited, strings.Replace(strings.Replace(limited, "1000m", "1", 1),
			"memory: 1Gi", "memory: 2Gi", 1), "spec.template.spec.containers[name=c].resources.limits.memory"},
		"a protocol that is UDP": {limited, strings.Replace(limited, "containerPort: 80",
			"containerPort: 80, protocol: UDP", 1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := change(t, tc.before, tc.after)
			if len(c.Fields) == 0 || tc.path != "" && (len(c.Fields) != 1 || c.Fields[0].Path != tc.path) {
				t.Errorf("fields %+v, want one at %q (noise %+v)", c.Fields, tc.path, c.Noise)
			}
		})
	}
	t.Run("lines", func(t *testing.T) {
		c := change(t, limited, strings.Replace(strings.Replace(limited, "1000m", "1", 1), "memory: 1Gi", "memory: 2Gi",
			1))
		for _, h := range c.Hunks {
			for _, l := range h.Lines {
				if strings.Contains(l, "cpu:") && l[0] != ' ' {
					t.Errorf("the diff shows %q, which is another form of the same value", l)
				}
			}
		}
	})
}

// Each change is refused by the API server: its validation is named in immutable.go.
func TestImmutableFields(t *testing.T) {
	volume := "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: pv}\nspec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /a}, storageClassName: x, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}\n"
	balancer := "apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: ns}\nspec: {type: LoadBalancer, loadBalancerClass: a, ports: [{port: 80}]}\n"
	object := func(version, kind, rest string) string {
		return "apiVersion: " + version + "\nkind: " + kind + "\nmetadata: {name: x}\n" + rest + "\n"
	}
	driver := object("storage.k8s.io/v1", "CSIDriver",
		"spec: {attachRequired: true, volumeLifecycleModes: [Persistent]}")
	class := object("storage.k8s.io/v1", "StorageClass",
		"provisioner: a\nmountOptions: [ro]\nallowVolumeExpansion: false")
	pod := object("v1", "Pod", "spec: {containers: [{name: c, image: 'a:1', command: [x]}], tolerations: []}")
	for name, tc := range map[string]struct {
		before, old, now string
		refused          bool
	}{
		"source of a volume": {volume, "path: /a", "path: /b", true},
		"kind of source":     {volume, "hostPath: {path: /a}", "nfs: {path: /a, server: b}", true},
		"node affinity":      {volume, "operator: Exists", "operator: DoesNotExist", true},
		"class of a volume":  {volume, "storageClassName: x", "storageClassName: z", false},
		"handler": {
			object("node.k8s.io/v1", "RuntimeClass", "handler: a"), "handler: a", "handler: b",
			true,
		},
		"attachRequired":    {driver, "attachRequired: true", "attachRequired: false", true},
		"the default of it": {driver, "attachRequired: true, ", "", false},
		"lifecycle modes":   {driver, "[Persistent]", "[Ephemeral]", true},
		"podInfoOnMount": {
			driver, "attachRequired: true", "attachRequired: true, podInfoOnMount: true",
			false,
		},
		"mount options of a class": {class, "[ro]", "[rw]", false},
		"expansion of a class":     {class, "allowVolumeExpansion: false", "allowVolumeExpansion: true", false},
		"provisioner":              {class, "provisioner: a", "provisioner: b", true},
		"class of a load balancer": {balancer, "loadBalancerClass: a", "loadBalancerClass: b", true},
		"and no load balancer":     {balancer, "type: LoadBalancer, loadBalancerClass: a", "type: ClusterIP", false},
		"address type": {
			object("discovery.k8s.io/v1", "EndpointSlice", "addressType: IPv4\nendpoints: []"),
			"IPv4", "IPv6", true,
		},
		"scopes of a quota": {
			object("v1", "ResourceQuota", "spec: {scopes: [BestEffort]}"), "BestEffort",
			"NotBestEffort", true,
		},
		"limits of a quota": {
			object("v1", "ResourceQuota", "spec: {hard: {pods: 1}}"), "pods: 1", "pods: 2",
			false,
		},
		"parameters of attributes": {object("storage.k8s.io/v1", "VolumeAttributesClass",
			"driverName: a\nparameters: {x: a}"), "x: a", "x: b", true},
		"a claim of devices": {object("resource.k8s.io/v1", "ResourceClaim",
			"spec: {devices: {requests: [{name: a}]}}"), "name: a", "name: b", true},
		"image of a pod":   {pod, "a:1", "a:2", false},
		"command of a pod": {pod, "[x]", "[z]", true},
		"success policy of a Job": {
			object("batch/v1", "Job",
				"spec: {successPolicy: {rules: [{succeededCount: 1}]}, template: {spec: {containers: []}}}"),
			"succeededCount: 1", "succeededCount: 2", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			after := strings.Replace(tc.before, tc.old, tc.now, 1)
			if after == tc.before {
				t.Fatal("both sides are equal: the case tests nothing")
			}
			c := change(t, tc.before, after)
			refused := slices.ContainsFunc(c.Effects,
				func(e diff.Effect) bool { return e.Name == diff.EffectImmutable })
			if refused != tc.refused {
				t.Errorf("refused: %t, want %t (fields %+v, effects %+v)", refused, tc.refused, c.Fields, c.Effects)
			}
		})
	}
}
