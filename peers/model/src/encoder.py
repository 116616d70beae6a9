"""A BERT-style encoder of a folder (config.json, model.safetensors) in onnxruntime, with mean pooling and normalisation.

Reads requests from standard input, one JSON object on each line, and answers each with one:
    {"tokens": FILE, "lengths": FILE, "rows": R, "length": L, "out": FILE}   sets the input, and writes the embeddings to `out`
    {"runs": N}                                                          wall and CPU time of each of N runs, in µs
    {"spin": true, "threads": T}                                         first line: options of the session
"""

import json
import struct
import sys
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

folder = sys.argv[1]
config = json.load(open(folder + "/config.json"))
width, heads = config["hidden_size"], config["num_attention_heads"]


def tensors():
    with open(folder + "/model.safetensors", "rb") as file:
        data = file.read()
    (size,) = struct.unpack("<Q", data[:8])
    start = 8 + size
    for name, about in json.loads(data[8:start]).items():
        if name != "__metadata__" and about["dtype"] == "F32":
            begin, end = about["data_offsets"]
            yield name, np.frombuffer(data[start + begin : start + end], np.float32).reshape(about["shape"])


class Graph:
    def __init__(self):
        self.nodes, self.constants, self.params = [], [], dict(tensors())

    def constant(self, value, name=None):
        name = name or f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def op(self, kind, *inputs, domain="", **attributes):
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], domain=domain, **attributes))
        return name

    def linear(self, x, name):
        weight = self.constant(self.params[name + ".weight"].T)
        return self.op("Add", self.op("MatMul", x, weight), self.constant(self.params[name + ".bias"]))

    def norm(self, x, name):
        scale, bias = (self.constant(self.params[f"{name}.{part}"]) for part in ("weight", "bias"))
        return self.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=config["layer_norm_eps"])

    def encoder(self):
        table = lambda name: self.constant(self.params[f"embeddings.{name}.weight"])
        words = self.op("Gather", table("word_embeddings"), "tokens")
        kind = self.params["embeddings.token_type_embeddings.weight"][0]
        places = self.constant(self.params["embeddings.position_embeddings.weight"] + kind)
        length = self.op("Slice", self.op("Shape", "tokens"), *(self.constant(np.array([at])) for at in (1, 2)))
        zero = self.constant(np.array([0]))
        positions = self.op("Slice", places, zero, length, zero)
        x = self.norm(self.op("Add", words, positions), "embeddings.LayerNorm")
        for at in range(config["num_hidden_layers"]):
            name = f"encoder.layer.{at}."
            query, key, value = (self.linear(x, f"{name}attention.self.{part}") for part in ("query", "key", "value"))
            # onnxruntime's own operation: faster than products and a softmax.
            mixed = self.op("MultiHeadAttention", query, key, value, "", "lengths", domain="com.microsoft", num_heads=heads)
            x = self.op("Add", x, self.linear(mixed, name + "attention.output.dense"))
            x = self.norm(x, name + "attention.output.LayerNorm")
            inner = self.op("Gelu", self.linear(x, name + "intermediate.dense"))
            x = self.norm(self.op("Add", x, self.linear(inner, name + "output.dense")), name + "output.LayerNorm")
        one = self.constant(np.array([1]))
        scalar = lambda name: self.op("Squeeze", name, self.constant(np.array([0])))
        numbers = self.op("Range", self.constant(np.array(0)), scalar(length), self.constant(np.array(1)))
        lengths = self.op("Cast", self.op("Unsqueeze", "lengths", one), to=TensorProto.INT64)
        present = self.op("Cast", self.op("Less", numbers, lengths), to=TensorProto.FLOAT)
        shares = self.op("Div", present, self.op("Cast", lengths, to=TensorProto.FLOAT))
        pooled = self.op("MatMul", self.op("Unsqueeze", shares, one), x)
        pooled = self.op("Squeeze", pooled, one)
        norm = self.op("Sqrt", self.op("ReduceSum", self.op("Mul", pooled, pooled), one, keepdims=1))
        self.nodes.append(helper.make_node("Div", [pooled, norm], ["embeddings"]))
        value = helper.make_tensor_value_info
        inputs = [value("tokens", TensorProto.INT64, ["r", "l"]), value("lengths", TensorProto.INT32, ["r"])]
        outputs = [value("embeddings", TensorProto.FLOAT, ["r", width])]
        graph = helper.make_graph(self.nodes, "encoder", inputs, outputs, self.constants)
        sets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=sets, ir_version=10)


def answer(**about):
    print(json.dumps(about), flush=True)


options = onnxruntime.SessionOptions()
about = json.loads(sys.stdin.readline())
options.intra_op_num_threads = about["threads"]
options.add_session_config_entry("session.intra_op.allow_spinning", "1" if about["spin"] else "0")
session = onnxruntime.InferenceSession(Graph().encoder().SerializeToString(), options, ["CPUExecutionProvider"])
answer(version=onnxruntime.__version__)
feed = None
for line in sys.stdin:
    request = json.loads(line)
    if "runs" in request:
        wall, cpu = [], []
        for _ in range(request["runs"]):
            start = time.perf_counter(), time.process_time()
            session.run(None, feed)
            wall.append((time.perf_counter() - start[0]) * 1e6)
            cpu.append((time.process_time() - start[1]) * 1e6)
        answer(wall=wall, cpu=cpu)
    else:
        tokens = np.fromfile(request["tokens"], np.uint32).reshape(request["rows"], request["length"])
        feed = {"tokens": tokens.astype(np.int64), "lengths": np.fromfile(request["lengths"], np.uint32).astype(np.int32)}
        session.run(None, feed)[0].astype(np.float32).tofile(request["out"])
        answer(written=True)
